#!/bin/bash
# boot.sh SERVER LAYER... TREE: boots a system that has a kernel of its own, User-mode Linux, in the namespaces that it is started
# in. Its root is the layers over the tree, its folder the folder SERVER. What it changes is in its memory.
set -euo pipefail
server=$1
shift
root=$server/root
mkdir -p "$root"
mount -t overlay overlay -o "lowerdir=$(IFS=:; echo "$*")" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o exec memory "$root/dev/shm" # the kernel's memory is a file there
mount -t tmpfs run "$root/run"
mkdir "$root/run/server"
mount --bind "$server" "$root/run/server"
# Process 1 of a namespace gets only the signals that it handles, and this kernel works by signals: so it is a child.
chroot "$root" env -i PATH=/usr/sbin:/usr/bin setarch --addr-no-randomize linux.uml uml_dir=/run/ mem=256M \
  root=/dev/root rootfstype=hostfs rootflags=/ ro quiet init=/lab/init systemd.unit=lab.target con=null con0=null,fd:1
exit
