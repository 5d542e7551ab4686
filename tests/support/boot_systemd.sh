#!/bin/sh
# boot_systemd.sh ROOT SCRIPT [FOLDER]: becomes a real systemd, the first process of the namespaces that this runs in
# (unshare --mount --pid --net --uts --ipc --cgroup --fork). Its files are this host's, below a layer that takes what
# is written. SCRIPT runs first, in that root, and prepares it; FOLDER is seen there as it is here, and can be
# written. Exit 77 and a sentence: it cannot be done here.
set -eu
root=$1 script=$2 folder=${3:-}

impossible() {
    echo "no systemd of our own: $1" >&2
    exit 77
}

[ -x /lib/systemd/systemd ] || impossible "the package systemd is not installed"
mount --make-rprivate /
mount -t tmpfs -o mode=755 tmpfs "$root"
mkdir "$root/upper" "$root/work" "$root/root"
mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/root" 2>/dev/null ||
    impossible "this host's files cannot be the lower layer of an overlay"
cd "$root/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys || impossible "sysfs cannot be mounted"
mount -t tmpfs -o mode=755 tmpfs dev
for name in null zero full random urandom tty; do
    : >dev/$name
    mount --bind /dev/$name dev/$name
done
mkdir dev/shm dev/pts
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for name in run tmp etc/systemd/system; do
    mount -t tmpfs -o mode=755 tmpfs $name
done
chmod 1777 tmp
if grep -q ' /sys/fs/cgroup cgroup2 ' /proc/mounts; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mount -t tmpfs -o mode=755 tmpfs sys/fs/cgroup
    mkdir sys/fs/cgroup/unified sys/fs/cgroup/systemd
    mount -t cgroup2 cgroup2 sys/fs/cgroup/unified
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi || impossible "control groups cannot be mounted"
if [ -n "$folder" ]; then
    mkdir -p ".$folder"
    mount --bind "$folder" ".$folder"
fi
chroot . ip link set lo up
chroot . sh "$script" || exit 1
# No chroot: the kernel lets no process of one make a user namespace, and units ask for that.
mkdir -p mnt/old
pivot_root . mnt/old
cd /
umount -l /mnt/old
exec env -i container=kvrail PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --unit=kvrail-test.target --log-target=journal --show-status=no
