#!/bin/sh
# The VM's first process after init: makes the rails, runs the command that lies in /host and leaves
# its exit status there. What the command says goes out by a port of its own, not by the console.
here=$(cd "$(dirname "$0")" && pwd)
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root

mkdir -p /dev/shm /dev/pts /host
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /run
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=none host /host
mkdir -p /run/test
export TMPDIR=/run/test

end() {
    echo "$1" >/host/status
    sync
    echo o >/proc/sysrq-trigger
    sleep 60
}

. /host/settings # directory, rails, memlock_kb and the caller's environment
for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name")" = out ] && out=/dev/${port##*/}
done
hostname kvrail-vm
ip link set lo up
. "$here/rails.sh"
make_rails "$rails" >/host/rails.log 2>&1 || end 125
ulimit -l "$memlock_kb"
export LD_PRELOAD=/host/card.so
cd "$directory" || end 125
setsid sh /host/command <"/dev/null" >"$out" 2>&1
status=$?
dmesg >/host/kernel.log
end $status
