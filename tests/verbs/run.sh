#!/bin/sh
# Runs COMMAND, or the suite, over libfabric's verbs provider: in a VM with soft-RoCE cards.
#
#   sh tests/verbs/run.sh [COMMAND [ARGUMENT…]]
#
# The VM is emulated (no KVM), boots Debian's kernel and sees this host's files, which it cannot
# change; the command runs in this folder, as root, and its output and exit status are returned. One
# argument alone is a line for the shell. Environment:
#
#   KVRAIL_BUILD_DIR         the build of the tested programs (build/release)
#   KVRAIL_PATIENCE          every time limit of the suite is multiplied by this whole number (4)
#   KVRAIL_VERBS_RAILS       how many soft-RoCE cards there are (8)
#   KVRAIL_VERBS_MEMLOCK     limit of locked memory in KiB, or unlimited (unlimited)
#   KVRAIL_VERBS_TIMEOUT     seconds after which the VM is ended (225 times KVRAIL_PATIENCE)
#   KVRAIL_VERBS_KEEP        a folder that keeps what the VM leaves: logs of its console and kernel
#
# KVRAIL_* and FI_* are passed on. Exit 77 and the reason: there can be no VM here; 125: it broke.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
memory_mb=2048

case ${1:-} in
-h | --help)
    sed -n '2,18s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

impossible() {
    echo "verbs: no VM here: $1" >&2
    exit 77
}

[ "$(uname -m)" = x86_64 ] || impossible "the processor is $(uname -m), the kernel fetched is for x86_64"
available_mb=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
[ "$available_mb" -ge $((memory_mb + 512)) ] ||
    impossible "$available_mb MiB of memory are available, $((memory_mb + 512)) are needed"
sh "$root/tests/support/install.sh" verbs >&2 || impossible "its packages could not be installed"
made=$(sh "$here/prepare.sh")

export KVRAIL_ROOT_DIR="$root" KVRAIL_BUILD_DIR="${KVRAIL_BUILD_DIR:-$root/build/release}"
export KVRAIL_PATIENCE="${KVRAIL_PATIENCE:-4}"
if [ $# -eq 0 ] && [ ! -x "$KVRAIL_BUILD_DIR/tests/fabric.conformance_tcp" ]; then
    echo "verbs: $KVRAIL_BUILD_DIR holds no build with tests (cmake --preset release -DBUILD_TESTING=ON," \
        "cmake --build --preset release)" >&2
    exit 2
fi
# rxe's queues hold 32,767 entries; libfabric would open one for 256 peers, which needs more.
export FI_UNIVERSE_SIZE="${FI_UNIVERSE_SIZE:-8}"

work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-verbs.XXXXXX")
keep_and_remove() {
    if [ -n "${KVRAIL_VERBS_KEEP:-}" ]; then
        mkdir -p "$KVRAIL_VERBS_KEEP"
        cp -r "$work/." "$KVRAIL_VERBS_KEEP"
    fi
    rm -rf "$work"
}
trap keep_and_remove EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

gcc -std=gnu17 -O2 -Wall -Wextra -Werror -shared -fPIC -o "$work/card.so" "$here/card.c"

# A word for the shell, whatever is in it.
quote() {
    printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

if [ $# -eq 0 ]; then
    echo "sh $(quote "$here/suite.sh")"
elif [ $# -eq 1 ]; then
    printf '%s\n' "$1"
else
    for word in "$@"; do
        printf '%s ' "$(quote "$word")"
    done
    echo
fi >"$work/command"
{
    export -p | grep -E '^export (KVRAIL_|FI_)'
    echo "directory=$(quote "$(pwd)") rails=${KVRAIL_VERBS_RAILS:-8}"
    echo "memlock_kb=${KVRAIL_VERBS_MEMLOCK:-unlimited}"
} >"$work/settings"

# Two NUMA nodes of a processor each, and on each a card: last, or other devices would lie there.
nodes() {
    for node in 0 1; do
        echo "-object memory-backend-ram,id=memory$node,size=$((memory_mb / 2))M" \
            "-numa node,nodeid=$node,cpus=$node,memdev=memory$node" \
            "-device pxb,id=bus$node,bus=pci.0,bus_nr=$((64 + 64 * node)),numa_node=$node" \
            "-netdev hubport,id=net$node,hubid=0" \
            "-device virtio-net-pci,bus=bus$node,addr=1,netdev=net$node,romfile=,mac=02:00:00:00:78:0$node"
    done
}

# No device but those named here; what its command says is a file that is our pipe.
# shellcheck disable=SC2046 # a list of options
boot() {
    timeout -k 5 "${KVRAIL_VERBS_TIMEOUT:-$((225 * KVRAIL_PATIENCE))}" qemu-system-x86_64 \
        -accel tcg,thread=multi -cpu Nehalem -machine pc,vmport=off,hpet=off -smp 2 -m "$memory_mb" \
        -nodefaults -no-user-config -display none -no-reboot \
        -kernel "$made/vmlinux" -initrd "$made/initrd" -append "$(kernel_words)" \
        -fsdev "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap" \
        -device virtio-9p-pci,fsdev=root,mount_tag=root \
        -fsdev "local,id=host,path=$work,security_model=none" \
        -device virtio-9p-pci,fsdev=host,mount_tag=host \
        -device virtio-serial-pci -chardev file,id=out,path=/dev/stdout \
        -device virtserialport,chardev=out,name=out \
        -chardev "file,id=console,path=$work/console.log" -serial chardev:console \
        -object rng-random,id=random,filename=/dev/urandom -device virtio-rng-pci,rng=random $(nodes) \
        </dev/null 2>"$work/qemu.log"
}

# What an emulated kernel need not do.
kernel_words() {
    echo "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr no_timer_check audit=0" \
        "apparmor=0 selinux=0 cryptomgr.notests nowatchdog random.trust_cpu=on" \
        "rcupdate.rcu_expedited=1 kvrail.guest=$here/guest.sh"
}

{
    ended=0
    boot || ended=$?
    echo $ended >"$work/ended"
} | cat
if [ -s "$work/status" ]; then
    exit "$(cat "$work/status")"
fi
echo "verbs: the VM ended without a result (QEMU: $(cat "$work/ended"); 124 is its time limit)" >&2
tail -n 30 "$work/qemu.log" "$work/console.log" >&2
exit 125
