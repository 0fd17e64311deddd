#!/bin/bash
# in-root.sh ROOT FOLDERS COMMAND...: runs a command in a root tree of Debian's packages. The folders (a list with colons) have the
# same paths in it as outside, and the machine's resolver, trusted certificates and pip's configuration are lent to it. All of the
# mounts are private to the command.
set -euo pipefail
if [[ ${1-} != inside ]]; then exec unshare --mount --propagation private "$0" inside "$@"; fi
root=$2 folders=$3
shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmp "$root/tmp"
# Below the tree's /tmp nothing of it is in the way.
IFS=: read -ra list <<<"$folders"
for folder in "${list[@]}"; do
  mkdir -p "$root$folder"
  mount --bind "$folder" "$root$folder"
done
lend() {
  [[ -e $1 ]] || return 0
  mkdir -p "$root$(dirname "$1")"
  [[ -e $root$1 ]] || : >"$root$1"
  mount --bind "$(readlink -f "$1")" "$root$1"
}
lend /etc/resolv.conf
lend /etc/ssl/certs/ca-certificates.crt
lend /etc/pip.conf
mapfile -t kept < <(env | grep -iE '^(pip_[a-z_]*|(https?|no)_proxy)=' || true)
exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "${kept[@]}" "$@"
