#!/bin/bash
# disk.sh IMAGE RAMDISK TOOLS OUT: makes of the servers' root tree a disk image that boots with UEFI, raw and as qcow2: an ESP with
# systemd-boot and the kernel, and the root. No loop device, and no mount but the overlay that adds the kernel's modules.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [[ ${1-} != inside ]]; then exec unshare --mount --propagation private "$0" inside "$@"; fi
image=$2 ramdisk=$3 tools=$4 out=$5
root=$out/root
mkdir -p "$root"
# mke2fs keeps what it finds, the overlays of the preloaded containerd included.
mount -t overlay overlay -o "lowerdir=$ramdisk/modules:$image" "$root"
printf 'timeout 0\ndefault debian\n' >"$out/loader.conf"
printf 'title Debian\nlinux /vmlinuz\ninitrd /initrd\noptions root=LABEL=root rw console=ttyS0 quiet\n' >"$out/debian.conf"
"$here/in-root.sh" "$tools" "$ramdisk:$out:$root" bash -euc 'out=$0 ramdisk=$1 mb=$2
  cd "$out"
  truncate -s "$((mb - 1))M" root.ext4
  mke2fs -q -t ext4 -L root -d root root.ext4
  truncate -s 128M esp.fat
  mformat -i esp.fat -F -v ESP ::
  mmd -i esp.fat ::EFI ::EFI/BOOT ::loader ::loader/entries
  # The name that firmware tries by itself.
  mcopy -i esp.fat /usr/lib/systemd/boot/efi/systemd-bootx64.efi ::EFI/BOOT/BOOTX64.EFI
  mcopy -i esp.fat "$ramdisk/ipa.kernel" ::vmlinuz
  mcopy -i esp.fat "$ramdisk/initrd" ::initrd
  mcopy -i esp.fat loader.conf ::loader/loader.conf
  mcopy -i esp.fat debian.conf ::loader/entries/debian.conf
  truncate -s "$((1 + 128 + mb + 1))M" disk.raw
  sgdisk -og -n 1:2048:+128M -t 1:ef00 -c 1:ESP -n "2:0:+$((mb - 1))M" -t 2:8300 -c 2:root disk.raw >/dev/null
  dd if=esp.fat of=disk.raw bs=1M seek=1 conv=notrunc,sparse status=none
  dd if=root.ext4 of=disk.raw bs=1M seek=129 conv=notrunc,sparse status=none
  rm root.ext4 esp.fat loader.conf debian.conf
  qemu-img convert -f raw -O qcow2 disk.raw disk.qcow2
  for format in raw qcow2; do sha256sum disk.$format | cut -d" " -f1 >disk.$format.sha256sum; done' "$out" "$ramdisk" 1800
umount "$root"
rmdir "$root"
