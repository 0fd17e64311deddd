#!/bin/bash
# ramdisk.sh TREE TOOLS OUT: makes of a root tree the deployment ramdisk (ipa.kernel, ipa.initramfs), and beside it the boot loader
# of Ironic's ISO (esp.img) and what the disk image needs to boot (modules/, initrd).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tree=$1 tools=$2 out=$3
"$here/in-root.sh" "$tree" "$here" sh -ec '
  python3 -m venv /opt/agent
  /opt/agent/bin/pip -q install --no-input --require-hashes -r "$0/agent.lock"
  /opt/agent/bin/pip -q uninstall -y pip' "$here"

kernel=$(basename "$tree"/boot/vmlinuz-*)
kernel=${kernel#vmlinuz-}
mkdir -p "$out/modules/usr/lib/modules" "$out/modules/boot"
cp "$tree/boot/config-$kernel" "$out/modules/boot/" # kubeadm looks for it
cp "$tree/boot/vmlinuz-$kernel" "$out/ipa.kernel"
cp "$tree/boot/initrd.img-$kernel" "$out/initrd"
cp -a "$tree/usr/lib/modules/$kernel" "$out/modules/usr/lib/modules/"

install -m 755 "$here/ramdisk/init" "$tree/init"
install -m 755 "$here/ramdisk/udhcpc.sh" "$tree/etc/udhcpc.sh"
mkdir -p "$tree/etc/ironic-python-agent.d"
# The agent calls them, and the usual ones ask systemd.
for name in poweroff reboot; do
  printf '#!/bin/sh\nsync\nexec busybox %s -f\n' $name >"$tree/usr/sbin/$name"
  chmod 755 "$tree/usr/sbin/$name"
done
rm -rf "$tree"/var/lib/apt/lists "$tree"/var/cache/apt "$tree"/usr/lib/python3*/ensurepip
# Size is time: the server unpacks all of it. zstd costs the least there.
"$here/in-root.sh" "$tools" "$(dirname "$tree"):$out" bash -euo pipefail -c 'cd "$0"
  find . -path ./boot -prune -o -print0 | cpio -0 -o -H newc --quiet | zstd -q -3 -T0 -o "$1/ipa.initramfs"' "$tree" "$out"

# GRUB, which reads EFI/BOOT/grub.cfg from the CD.
"$here/in-root.sh" "$tools" "$out" sh -ec 'cd "$0"
  grub-mkimage -O x86_64-efi -p /EFI/BOOT -o bootx64.efi iso9660 fat part_gpt part_msdos normal linux search search_label configfile echo all_video efi_gop test loadenv minicmd ls
  truncate -s 4M esp.img
  mformat -i esp.img -v ESP ::
  mmd -i esp.img ::EFI ::EFI/BOOT
  mcopy -i esp.img bootx64.efi ::EFI/BOOT/BOOTX64.EFI
  rm bootx64.efi' "$out"
