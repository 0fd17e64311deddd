# tools.sh: what the scripts beside it have in common. They set `tools`, the folder of `oci::tools`, and `work`, what is kept for the
# next build, and are started in a mount namespace of their own, which ends with them.
tree=$tools/tree
mkdir -p "$work"/{store,run}

# buildah remounts its root, which must be a mount point therefore.
mount --bind "$tree" "$tree"
mount -t proc proc "$tree/proc"
mount --rbind /sys "$tree/sys"
mount --rbind /dev "$tree/dev"
show() { # FOLDER NAME: as /lab/NAME
  mkdir -p "$tree/lab/$2"
  mount --bind "$1" "$tree/lab/$2"
}
show "$work" work
tool() { chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"; }
buildah() { tool buildah --root /lab/work/store --runroot /lab/work/run --storage-driver overlay "$@"; }
# Without the limits every RUN fails where this process may not raise them to buildah's defaults.
bud() {
  buildah bud --quiet --isolation chroot --layers \
    --ulimit "nofile=$(ulimit -Hn):$(ulimit -Hn)" --ulimit "nproc=$(ulimit -Hu):$(ulimit -Hu)" "$@"
}
