#!/bin/bash
# power-on.sh TREE DISK NAME MAC CGROUP...: a server that boots its disk: DISK/upper is a layer over TREE. Runs in the namespaces
# of network.sh, and gives itself cgroups, a network and mounts of its own.
set -euo pipefail
tree=$1 disk=$2 name=$3 mac=$4
shift 4
for cgroup; do echo 0 >"$cgroup/cgroup.procs"; done

exec unshare --net --mount --propagation private bash -euc '
  tree=$1 disk=$2 name=$3 mac=$4
  # After a power cut the kernel may still be about to remove the old cable.
  nsenter --target 1 --net ip link delete "$name" 2>/dev/null || true
  # systemd-nspawn wants udev for networks of its own. cloud-init finds the interface by its MAC.
  ip link add host0 address "$mac" type veth peer name "$name" netns 1
  nsenter --target 1 --net ip link set "$name" master br0 up

  mkdir -p "$disk/work" "$disk/root"
  mount -t overlay overlay -o "lowerdir=$tree,upperdir=$disk/upper,workdir=$disk/work" "$disk/root"
  # The tools are those of the tree: nothing is installed on the machine.
  mount --bind "$tree" "$tree"
  mount -t proc proc "$tree/proc"
  mount --rbind /dev "$tree/dev"
  # A fresh sysfs shows this network namespace: in the old one cloud-init would see the interfaces of the machine.
  mount -t sysfs sysfs "$tree/sys"
  mount --rbind /sys/fs/cgroup "$tree/sys/fs/cgroup"
  mount -t tmpfs run "$tree/run"
  mkdir "$tree/run/disk"
  mount --rbind "$disk" "$tree/run/disk"
  # systemd-nspawn wants a machine ID in its own root.
  tr -d - </proc/sys/kernel/random/uuid >"$tree/run/machine-id"
  mount --bind "$tree/run/machine-id" "$tree/etc/machine-id"
  # Only /proc/sys/net is writable: the rest is not this server'\''s, but the machine'\''s.
  # LEGACY_FORCE: systemd 257 refuses cgroup v1 without it. register, keep-unit: there is no machined and no D-Bus here.
  # keyring: runc makes a session keyring. bpf: its device filter. rlimit: the defaults are above what a process without
  # CAP_SYS_RESOURCE may set. kmsg: the kubelet reads it. containerd: its overlays cannot lie on an overlay.
  # Not chroot: what is executed in a container later starts at the root of the mount namespace, which must not be the machine'\''s.
  cd "$tree"
  mkdir run/machine
  pivot_root . run/machine
  umount --lazy run/machine
  exec chroot . env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=0 SYSTEMD_NSPAWN_LOCK=0 \
    SYSTEMD_NSPAWN_API_VFS_WRITABLE=network \
    systemd-nspawn --register=no --keep-unit --boot --directory /run/disk/root --machine "$name" --console=read-only \
      --capability=all --system-call-filter="@keyring @mount bpf" --rlimit=RLIMIT_NOFILE=20000 \
      --rlimit=RLIMIT_NPROC=32768 --bind=/dev/kmsg --bind=/run/disk/containerd:/var/lib/containerd \
      --setenv=SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1 \
      systemd.unified_cgroup_hierarchy=0 SYSTEMD_CGROUP_ENABLE_LEGACY_FORCE=1' - "$tree" "$disk" "$name" "$mac"
