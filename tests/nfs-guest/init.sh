#!/bin/sh
# The first process of the machine.
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/root
/bin/busybox mkdir -p /usr/local/busybox
/bin/busybox --install -s /usr/local/busybox
PATH=$PATH:/usr/local/busybox
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
# The root of an initramfs cannot be left by pivot_root, and cgroups are not needed; a run of its own as everywhere.
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /tmp
mkdir -p /dev/pts /dev/shm /var/lib/nfs /etc
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount --make-rshared /
echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd
echo 'statd:x:100:65534::/nonexistent:/bin/false' >>/etc/passwd
echo '_rpc:x:101:65534::/nonexistent:/bin/false' >>/etc/passwd
printf 'root:x:0:\nnogroup:x:65534:\n' >/etc/group
printf '127.0.0.1 localhost\n10.0.0.2 nas-a\n10.1.0.2 nas-b\n' >/etc/hosts
printf 'hosts: files\npasswd: files\ngroup: files\nprotocols: files\nservices: files\nrpc: files\n' >/etc/nsswitch.conf
mkdir -p /etc/exports.d
: >/etc/exports
: >/etc/machine-id
echo guest >/proc/sys/kernel/hostname
ip link set lo up
for module in veth sunrpc auth_rpcgss nfsd nfs nfsv3 nfsv4; do
    modprobe $module || echo "== module $module cannot be loaded"
done
echo "== Linux $(uname -r), $(mount.nfs -V 2>&1 | head -n 1), booted in $(cut -d' ' -f1 /proc/uptime) s"
python3 /guest.py
sync
reboot -f
