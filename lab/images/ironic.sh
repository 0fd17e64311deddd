#!/bin/bash
# ironic.sh TOOLS WORK BASES WHEELS CONTEXT VERSION: builds the image of Ironic without an engine and without a network, and
# unpacks it to WORK/out. Started in a mount namespace of its own, which ends with it.
#   TOOLS    as build.sh has it
#   WORK     what is kept for the next build
#   BASES    a folder with root trees that have the packages of its two stages, `base.tar` and `build.tar`
#   WHEELS   a folder with everything that requirements.lock names
set -euo pipefail
tools=$1 work=$2 bases=$3 wheels=$4 context=$5 version=$6
here=$(cd "$(dirname "$0")" && pwd)
source "$here/tools.sh"

rm -rf "$work/context" "$work/bases" "$work/out" "$work/oci"
mkdir "$work/context" "$work/bases" "$work/out"
cp -r "$context/." "$work/context/"
printf '[global]\nno-index = true\nfind-links = /wheels\n' >"$work/pip.conf"
show "$wheels" wheels
for name in base build; do
  mkdir "$work/bases/$name"
  # A link: the same file system, or else a copy.
  ln "$bases/$name.tar" "$work/bases/$name/" 2>/dev/null || cp "$bases/$name.tar" "$work/bases/$name/"
  printf 'FROM scratch\nADD %s.tar /\n' "$name" >"$work/bases/$name/Dockerfile"
  bud --tag "localhost/ironic-$name" "/lab/work/bases/$name"
done
bud --tag localhost/ironic --build-arg BASE_IMAGE=localhost/ironic-base --build-arg BUILD_IMAGE=localhost/ironic-build \
  --build-arg SETUP=true --build-arg BUILD_SETUP=true --build-arg "VERSION=$version" \
  --volume /lab/wheels:/wheels:ro --volume /lab/work/pip.conf:/etc/pip.conf:ro /lab/work/context
buildah push --quiet localhost/ironic oci:/lab/work/oci:ironic
buildah push --quiet localhost/ironic "docker-archive:/lab/work/out/ironic.tar:localhost/ironic:$version"
tool umoci unpack --image /lab/work/oci:ironic /lab/work/out/ironic
# What no image is made of any more.
buildah prune --force >/dev/null
