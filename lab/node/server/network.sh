#!/bin/bash
# network.sh READY LAB PORT ADDRESS...: process 1 of the servers' namespaces. A bridge that the servers' cables are plugged into,
# and a cable to the network namespace of the process LAB, where its end is called PORT and has the addresses. When this process
# is killed, every server ends, and every mount and interface goes.
set -euo pipefail
ready=$1 lab=$2 port=$3
shift 3
read -r outside _ </proc/self/stat # our number outside: /proc is still the outer one
at_lab() { nsenter --target "$lab" --net ip "$@"; }

ip link set lo up
ip link add br0 type bridge
ip link set br0 up
at_lab link add "$port" type veth peer name uplink netns 1 # the number 1 is ours
ip link set uplink master br0 up
for address; do at_lab address add "$address" dev "$port"; done
at_lab link set "$port" up

mount --make-rprivate /
mount -t proc proc /proc
echo "$outside" >"$ready.unfinished"
mv "$ready.unfinished" "$ready"
while :; do sleep 3600 & wait $!; done
