#!/bin/bash
# has-kvm.sh TOOLS RAMDISK FOLDER: succeeds if a kernel boots under KVM within 15 s; otherwise prints what QEMU said.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
tools=$1 ramdisk=$2 folder=$3/kvm
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/root/bin"
cp "$tools/bin/busybox" "$folder/root/bin/"
printf '#!/bin/busybox sh\necho up-and-running\n/bin/busybox poweroff -f\n' >"$folder/root/init"
chmod +x "$folder/root/init"
ulimit -c 0 # QEMU may abort
"$here/in-root.sh" "$tools" "$ramdisk:$folder" sh -c 'cd "$0/root"
  find . | cpio -o -H newc --quiet >"$0/initrd"
  timeout -k 1 15 qemu-system-x86_64 -machine q35 -accel kvm -cpu host -m 512 -nodefaults -nographic -serial stdio -no-reboot \
    -kernel "$1/ipa.kernel" -initrd "$0/initrd" -append "console=ttyS0 quiet panic=-1"' "$folder" "$ramdisk" >"$folder/log" 2>&1 </dev/null || true
if ! grep -aq up-and-running "$folder/log"; then
  grep -av '^$' "$folder/log" | head -3
  exit 1
fi
