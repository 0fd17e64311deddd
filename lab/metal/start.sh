#!/bin/bash
# start.sh READY LAB PORT OUTSIDE IP FOLDER TOOLS IRONIC: process 1 of a server's namespaces. A bridge with the server, a DHCP server, the
# virtualisation with a BMC, an image server and Ironic; and a cable to the network namespace of the process LAB, where its end is
# called PORT. When this process is killed, all of it ends, the machine included, and every mount and interface goes.
set -euo pipefail
ready=$1 lab=$2 port=$3 outside=$4 ip=$5 folder=$6 tools=$7 ironic=$8
here=$(cd "$(dirname "$0")" && pwd)
read -r own _ </proc/self/stat # our number outside: /proc is still the outer one
at_lab() { nsenter --target "$lab" --net ip "$@"; }

ip link set lo up
ip link add br0 type bridge
ip address add "$ip/24" dev br0
ip link set br0 up
# The cable of a lab that has just ended is there until the last of its connections has timed out.
at_lab link delete "$port" 2>/dev/null || true
at_lab link add "$port" type veth peer name uplink netns 1 # the number 1 is ours
ip link set uplink master br0 up
at_lab address add "$outside/24" dev "$port"
at_lab link set "$port" up

mount --make-rprivate /
mount -t proc proc /proc
cd "$folder"
root=$folder/root
mkdir -p root root.changes root.work
mount -t overlay overlay -o "lowerdir=$tools,upperdir=$folder/root.changes,workdir=$folder/root.work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs run "$root/run"
mount -t tmpfs tmp "$root/tmp"
mkdir -p "$root$folder" "$root"/run/{libvirt,lock}
mount --bind "$folder" "$root$folder"
in_root() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 "$@"; }

# Larger than the disk once it is unpacked.
in_root sh -c 'cd "$0" && qemu-img create -q -f qcow2 large.qcow2 20G && sha256sum large.qcow2 | cut -d" " -f1 >large.qcow2.sha256sum' "$folder/http/images"

cp qemu.conf "$root/etc/libvirt/qemu.conf"
in_root dnsmasq --no-daemon --conf-file=/dev/null --interface=br0 --bind-interfaces --port=0 --pid-file= \
  --dhcp-range="${ip%.*}.100,${ip%.*}.150,1h" --dhcp-leasefile=/tmp/leases >log/dnsmasq.log 2>&1 &
in_root virtlogd -d
in_root libvirtd -d -v >log/libvirtd.log 2>&1
for ((i = 0; i < 300; i++)); do in_root virsh -q list >/dev/null 2>&1 && break || sleep 0.1; done
# The emulator uploads every inserted CD into this pool.
in_root virsh -q pool-define-as default dir --target "$folder/cds"
in_root virsh -q pool-start default
in_root virsh -q define "$folder/domain.xml"
in_root sh -c 'PATH=/opt/emulator/bin:$PATH
  python -c "import bcrypt, sys; print(sys.argv[1] + \":\" + bcrypt.hashpw(sys.argv[2].encode(), bcrypt.gensalt(4)).decode())" $(cat "$0/bmc.user") >"$0/bmc.htpasswd"
  cd "$0" && exec sushy-emulator --config "$0/emulator.conf"' "$folder" >log/emulator.log 2>&1 &

# Ironic calls both.
mkdir -p bin
for name in genisoimage mkisofs; do
  printf '#!/bin/sh\nexec chroot "%s" /usr/bin/genisoimage "$@"\n' "$root" >"bin/$name"
  chmod +x "bin/$name"
done
export PATH=$folder/bin:$ironic/bin:$PATH
python "$here/images.py" "$ip" 8080 http >log/images.log 2>&1 &
ironic --config-file ironic.conf >log/ironic.out 2>&1 &

echo "$own" >"$ready.unfinished"
mv "$ready.unfinished" "$ready"
while :; do sleep 3600 & wait $!; done
