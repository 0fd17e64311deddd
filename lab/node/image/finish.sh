#!/bin/bash
# finish.sh TREE KUBERNETES VERSION: makes servers' root tree of Debian's packages: our files, Kubernetes, and its images,
# preloaded into the tree's containerd.
set -euo pipefail
tree=$1 kubernetes=$2 version=$3
work=$(mktemp -d -p "$(dirname "$tree")")
trap 'rm -rf "$work"' EXIT

cp -r --preserve=mode "$(dirname "$0")/files/." "$tree/"
install -m 755 "$kubernetes/node" "$tree/usr/local/bin/node"
for name in kubelet kubeadm kubectl; do ln -sf node "$tree/usr/local/bin/$name"; done
# Empty, and not missing: systemd makes one at the first boot of each server.
: >"$tree/etc/machine-id"
ln -sf ../run/systemd/resolve/stub-resolv.conf "$tree/etc/resolv.conf"

# An image of one layer, with all its names, as `docker save` would write it.
image() { # ARCHIVE NAMES ENTRYPOINT, the last two as JSON; the layer is $work/layer.tar
  gzip -n1 <"$work/layer.tar" >"$work/layer.tar.gz"
  local digest
  digest=$(sha256sum "$work/layer.tar" | cut -d' ' -f1)
  printf '{"architecture":"amd64","os":"linux","config":{"Env":["PATH=/usr/local/bin:/usr/sbin"],"Entrypoint":%s},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$3" "$digest" >"$work/config.json"
  printf '[{"Config":"config.json","RepoTags":%s,"Layers":["layer.tar.gz"]}]' "$2" >"$work/manifest.json"
  pack -C "$work" -cf "$1" manifest.json config.json layer.tar.gz
}
pack() { tar --sort=name --owner=0 --group=0 --mtime=@0 "$@"; }
json() { sed 's/.*/"&"/' | paste -sd, | sed 's/.*/[&]/'; }

# The names that this kubeadm asks for, so that no registry is asked.
names=$(chroot "$tree" kubeadm config images list --kubernetes-version "$version" 2>/dev/null)
pause=$(grep '/pause:' <<<"$names")
sed -i "s|@PAUSE@|$pause|" "$tree/etc/containerd/config.toml"

mkdir -p "$work/layer/usr/local/bin"
cp "$kubernetes/node" "$work/layer/usr/local/bin/"
for name in etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy; do ln -s node "$work/layer/usr/local/bin/$name"; done
# kube-proxy calls these.
tools=(usr/sbin/xtables-nft-multi usr/sbin/nft usr/sbin/conntrack usr/bin/kmod usr/lib/x86_64-linux-gnu/xtables)
libraries=$(chroot "$tree" ldd /usr/sbin/xtables-nft-multi /usr/sbin/nft /usr/sbin/conntrack /usr/bin/kmod | grep -o '/[^ :]*\.so[^ :]*' | sort -u | sed 's|^/||')
# shellcheck disable=SC2086 # one word a library
pack -C "$tree" -h -cf "$work/tools.tar" "${tools[@]}" $libraries
tar -C "$work/layer" -xf "$work/tools.tar"
for name in {iptables,ip6tables}{,-save,-restore}; do ln -s xtables-nft-multi "$work/layer/usr/sbin/$name"; done
pack -C "$work/layer" -cf "$work/layer.tar" .
image "$work/kubernetes.tar" "$(grep -v -e /pause: -e coredns <<<"$names" | json)" '[]'
pack -C "$kubernetes" -cf "$work/layer.tar" pause
# The second name is for Pods that only have to run.
image "$work/pause.tar" "[\"$pause\",\"registry.k8s.io/pause:lab\"]" '["/pause"]'

# Mounts and processes are private to these namespaces, and end with them.
unshare --mount --pid --fork --kill-child --propagation private bash -euc '
  tree=$1
  mount --bind "$tree" "$tree"
  mount -t proc proc "$tree/proc"
  mount --rbind /sys "$tree/sys"
  mount --rbind /dev "$tree/dev"
  mount -t tmpfs run "$tree/run"
  mount --bind "$2" "$tree/mnt"
  chroot "$tree" systemctl -q enable systemd-networkd systemd-resolved kubelet
  chroot "$tree" containerd &
  for ((i = 0; i < 300; i++)); do [[ -S $tree/run/containerd/containerd.sock ]] && break; sleep 0.1; done
  for image in kubernetes pause; do chroot "$tree" ctr -n k8s.io images import "/mnt/$image.tar"; done
  chroot "$tree" ctr -n k8s.io images ls -q' - "$tree" "$work"
chroot "$tree" dpkg-query -W -f '${Package} ${Version}\n' >"$(dirname "$tree")/packages.lock"
