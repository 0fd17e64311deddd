#!/bin/bash
# build.sh TOOLS WORK TOOLCHAIN REGISTRY AUDITABLE CONTEXT VERSION IMAGE...: builds the images of a Dockerfile without an engine and
# without a network, and unpacks them to WORK/out. Started in a mount namespace of its own, which ends with it.
#   TOOLS      a folder with the root tree `tree`, which has buildah and umoci, and `builder.tar`, a root tree with a C compiler
#   WORK       what is kept for the next build
#   TOOLCHAIN  of Rust
#   REGISTRY   of cargo, with everything that the lock file names
#   AUDITABLE  a folder with cargo-auditable
set -euo pipefail
tools=$1 work=$2 toolchain=$3 registry=$4 auditable=$5 context=$6 version=$7
shift 7
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$work"/{target,builder}
rm -rf "$work/out" "$work/oci" "$work/context"
mkdir "$work/out" "$work/context"
# As it is now: what is edited meanwhile would be in one image and not in the other.
tar -C "$context" --exclude=./target --exclude=./.git --exclude=./.lab -cf - . | tar -C "$work/context" -xf -
cp "$tools/builder.tar" "$work/builder/"
cp "$here/Dockerfile.builder" "$work/builder/Dockerfile"
# A file that is mounted: --env would stay in the image.
printf '[net]\noffline = true\n' >"$work/cargo.toml"

source "$here/tools.sh"
show "$toolchain" toolchain
show "$registry" registry
show "$auditable" auditable

bud --tag localhost/builder --build-context toolchain=/lab/toolchain /lab/work/builder
for name in "$@"; do
  bud --tag "localhost/$name" --target "$name" \
    --build-arg RUST_IMAGE=localhost/builder --build-arg SETUP="install /auditable/cargo-auditable /usr/local/bin" \
    --build-arg RUSTFLAGS=-Ctarget-feature=+crt-static --build-arg "VERSION=$version" \
    --volume /lab/registry:/cargo/registry --volume /lab/work/cargo.toml:/cargo/config.toml:ro \
    --volume /lab/auditable:/auditable:ro --volume /lab/work/target:/src/target \
    --file /lab/work/context/Dockerfile /lab/work/context
  buildah push --quiet "localhost/$name" "oci:/lab/work/oci:$name"
  buildah push --quiet "localhost/$name" "docker-archive:/lab/work/out/$name.tar:localhost/$name:$version"
  tool umoci unpack --image "/lab/work/oci:$name" "/lab/work/out/$name"
done
# What no image is made of any more.
buildah prune --force >/dev/null
