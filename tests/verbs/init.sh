#!/bin/busybox sh
# The first process of the VM: loads the modules, lays a writable layer over the host's root, which is
# there to be read only, and hands over to guest.sh in it. /host is the one folder that the host reads.
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /lower /layer /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
give_up() {
    echo "init: $1"
    poweroff -f
}
while read -r module; do
    insmod "/modules/$module" || give_up "$module was not loaded"
done </modules/order
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro root /lower ||
    give_up "the host's root was not mounted"
mount -t tmpfs -o size=75% layer /layer
mkdir /layer/upper /layer/work
mount -t overlay -o lowerdir=/lower,upperdir=/layer/upper,workdir=/layer/work overlay /root ||
    give_up "no writable layer"
for folder in proc sys dev; do
    mount --move /$folder /root/$folder
done
for word in $(cat /root/proc/cmdline); do
    case $word in
    kvrail.guest=*) guest=${word#kvrail.guest=} ;;
    esac
done
exec switch_root /root /bin/sh "$guest"
