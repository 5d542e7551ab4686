#!/bin/sh
# Builds the wheel and tries it: what is in it, an installation in a virtual environment, other libfabrics of the
# host, a host without rdma-core and without libfabric. Then a clean root of another Debian release, with
# nothing but Python, and with Debian's libfabric.
#
#   sh tests/wheel/run.sh [CASE…]
#
# Environment: KVRAIL_BUILD_DIR (build/libfabric2, where `sh tests/run.sh --stages wheel` builds with the libfabric
# of Debian 13), KVRAIL_SCALE: time limits are multiplied by it. The last line counts the cases; exit 1 when
# one failed. A case that cannot run here says why and counts as skipped.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${KVRAIL_BUILD_DIR:-$root/build/libfabric2}
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-wheel.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
unset KVRAIL_LIBFABRIC KVRAIL_LIBRARY KVRAIL_CONFIG PYTHONPATH LD_LIBRARY_PATH
export PYTHONDONTWRITEBYTECODE=1 LC_ALL=C
passed=0 failed=0 skipped=0

# In a case's subshell.
fail() {
    echo "FAILED: $*" >&2
    exit 1
}
skip() {
    echo "skipped: $*"
    exit 77
}

wheel() { ls "$build"/kvrail-*.whl; }
make_wheel() { cmake --build "$build" --target wheel >"$work/make.log" 2>&1 || fail "$(tail -n 20 "$work/make.log")"; }

# ---- cases

# Its metadata, its hashes, its symbols, what its files need; and each of five faults would be seen.
case_content() {
    python3 "$here/check_wheel.py" "$(wheel)" || fail "the wheel has faults"
    echo 'unsigned arc4random(void); unsigned late(void); unsigned late(void) { return arc4random(); }' |
        "${CC:-cc}" -shared -fPIC -o "$work/late.so" -Wl,-soname,liblate.so.1 -x c - || fail "no library"
    for fault in changed unrecorded late verbs unlicensed; do
        mkdir "$work/$fault"
        broken="$work/$fault/$(basename "$(wheel)")"
        python3 "$here/break_wheel.py" "$fault" "$(wheel)" "$broken" "$work/late.so"
        ! python3 "$here/check_wheel.py" "$broken" >"$work/$fault/found" || fail "a $fault wheel is accepted"
    done
    grep -q 'RECORD is wrong on kvrail/aio.py' "$work/changed/found" || fail "$(cat "$work/changed/found")"
    grep -q 'RECORD differs: .*kvrail/more.py' "$work/unrecorded/found" || fail "$(cat "$work/unrecorded/found")"
    grep -q 'liblate.so.1 needs GLIBC_2\.' "$work/late/found" || fail "$(cat "$work/late/found")"
    grep -q 'libibverbs.so.1 is a library that must be' "$work/verbs/found" || fail "$(cat "$work/verbs/found")"
    grep -q 'licenses/libfabric[a-z-]*/copyright is missing' "$work/unlicensed/found" ||
        fail "$(cat "$work/unlicensed/found")"
}

# Made again at another time, in another time zone and with another umask, it has the same bytes.
case_same_bytes() {
    before=$(sha256sum <"$(wheel)")
    rm -f "$build"/kvrail-*.whl "$build/common/wheel/libfabric.so.1"
    (umask 077 && TZ=Asia/Tokyo make_wheel)
    [ "$(sha256sum <"$(wheel)")" = "$before" ] || fail "the second wheel has other bytes"
}

# An environment for several cases.
make_venv() {
    python3 -m venv "$work/venv" >"$work/venv.log" 2>&1 && return 0
    skip "python3 -m venv does not work: $(tail -n 1 "$work/venv.log")"
}

install_into_venv() {
    [ -d "$work/venv" ] || make_venv
    [ -x "$work/venv/bin/kvrail" ] ||
        "$work/venv/bin/pip" install -q --no-index --disable-pip-version-check "$(wheel)" ||
        fail "pip does not install it"
}

# named PLACE: the agents of $work/moved named the libfabric of that place when they started.
named() {
    [ "$(grep -c "is ready: .*; libfabric [0-9.]* of $1.*, kvrail is built with its API" "$work/moved")" = 2 ] ||
        fail "the agents do not name the libfabric of $1: $(cat "$work/moved")"
}

# moves PLACE [OPTION…]: pages, between agents that take the libfabric of that place.
moves() {
    place=$1
    shift
    (cd / && "$work/venv/bin/python" "$here/move.py" "$work/venv/bin" "$@") >"$work/moved" || fail "no page moved"
    cat "$work/moved"
    named "$place"
    expected=$(sed -n 's/.*KVRAIL_VERSION "\(.*\)"$/\1/p' "$build/generated/base/version.h")
    grep -qx "kvrail $expected" "$work/moved" || fail "kvrail does not say that it is $expected"
}

# pip install into a virtual environment; then bytes move, over the libfabric of the wheel. An engine that
# starts its agent finds the wheel's.
case_venv() {
    install_into_venv
    moves "$work/venv/lib/"
    agent=$("$work/venv/bin/python" -c 'from kvrail.agents.command import program; print(program("decode-agent"))')
    case $agent in
    "$work"/venv/lib/*/kvrail/bin/decode-agent) "$agent" --version >/dev/null || fail "$agent does not start" ;;
    *) fail "an engine would start $agent" ;;
    esac
}

# What pip installed it removes.
case_uninstall() {
    install_into_venv
    "$work/venv/bin/pip" uninstall -q -y kvrail
    left=$(find "$work/venv" -name '*kvrail*' -o -name '*-agent')
    [ -z "$left" ] || fail "left behind: $left"
}

# Another libfabric of the host, chosen by an option or by the environment: the whole one of the build.
case_other_libfabric() {
    other=$("$build/bin/kvrail" topo | sed -n 's/^libfabric .* of \(.*\)\/libfabric.so.1, kvrail is built .*/\1/p')
    [ -n "$other" ] || fail "the build's own programs load no libfabric"
    install_into_venv
    moves "$other/libfabric.so.1" --libfabric "$other"
    export KVRAIL_LIBFABRIC="$other"
    moves "$other/libfabric.so.1"
}

# The host's own, where it is older than the build's: an agent refuses it and says what to do.
case_old_libfabric() {
    library=$(/sbin/ldconfig -p | sed -n 's/.*libfabric\.so\.1 .*=> //p' | head -n 1)
    [ -n "$library" ] || skip "this host has no libfabric"
    install_into_venv
    api=$("$work/venv/bin/kvrail" topo | sed -n 's/^libfabric .*, kvrail is built with its API \([0-9.]*\)$/\1/p')
    [ -n "$api" ] || fail "kvrail topo does not name the API of the build"
    version=$(python3 -c 'import ctypes, sys
version = ctypes.CDLL(sys.argv[1]).fi_version()
print(f"{version >> 16}.{version & 0xffff}")' "$library") || fail "$library has no version"
    [ "$version" != "$api" ] && [ "$(printf '%s\n' "$version" "$api" | sort -V | head -n 1)" = "$version" ] ||
        skip "this host's libfabric is $version, and the wheel takes $api or later"
    code=0
    "$work/venv/bin/decode-agent" --name d --engine-socket "$work/d.sock" --provider tcp --insecure \
        --libfabric "$(dirname "$library")" >"$work/refused" 2>&1 || code=$?
    cat "$work/refused"
    [ $code != 0 ] || fail "an agent started with libfabric $version"
    grep -qF "$library is libfabric $version, but kvrail is built with the API of $api: choose that version or a" \
        "$work/refused" || fail "it does not say that $library is too old"
    KVRAIL_LIBFABRIC=$(dirname "$library") "$work/venv/bin/kvrail" topo >"$work/topo"
    grep -qF "$library is libfabric $version, but" "$work/topo" || fail "kvrail topo: $(cat "$work/topo")"
}

# A host without rdma-core and libfabric: in a mount namespace their files are empty.
case_no_rdma() {
    [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null || skip "no mount namespace can be made"
    install_into_venv
    unshare -m sh "$here/run.sh" --hidden "$work" "$build"
}

# Within the namespace.
hidden() {
    /sbin/ldconfig -p | sed -n 's/.*lib\(fabric\|ibverbs\|rdmacm\|efa\|psm2\|psm_infinipath\)\.so\.[0-9]* .*=> //p' |
        while read -r library; do
            mount --bind /dev/null "$(realpath "$library")"
            echo "$library"
        done >"$work/hidden"
    if grep -q libfabric "$work/hidden"; then
        "$work/venv/bin/kvrail" topo --libfabric "$(dirname "$(grep libfabric "$work/hidden")")" >"$work/topo"
        grep -q 'libfabric.so.1: file too short' "$work/topo" || fail "the host's libfabric is not hidden"
    fi
    moves "$work/venv/lib/"
}

# ---- a root of another Debian release

[ "$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" = trixie ] && release=bookworm || release=trixie

# With nothing but Python, from the mirror that apt uses, and the wheel in a virtual environment.
make_root() {
    [ ! -e "$work/root/tmp/venv/bin/kvrail" ] || return 0
    rm -rf "$work/root"
    [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null || skip "no mount namespace can be made"
    command -v mmdebstrap >/dev/null || skip "there is no mmdebstrap"
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Component: main' 2>/dev/null | head -n 1)
    [ -n "$mirror" ] || skip "apt knows no mirror of Debian"
    /usr/lib/apt/apt-helper download-file "${mirror%/}/dists/$release/InRelease" "$work/InRelease" \
        >"$work/mirror.log" 2>&1 || skip "apt's mirror has no $release: $(tail -n 1 "$work/mirror.log")"
    mmdebstrap --quiet --variant=extract --include=python3-venv,base-files $release "$work/root" "$mirror" \
        >"$work/root.log" 2>&1 || fail "no root of $release: $(tail -n 5 "$work/root.log")"
    # What the packages' scripts would have made: pip reads it.
    mkdir -p "$work/root/etc/ssl/certs"
    cat "$work/root/usr/share/ca-certificates/mozilla/"*.crt >"$work/root/etc/ssl/certs/ca-certificates.crt"
    find "$work/root" -name 'libibverbs*' -o -name 'libfabric*' -o -name 'libuv*' -o -name 'libjansson*' >"$work/found"
    [ ! -s "$work/found" ] || fail "the root is not clean: $(cat "$work/found")"
    cp "$(wheel)" "$here/move.py" "$work/root/tmp/"
    in_root python3 -m venv /tmp/venv
    in_root /tmp/venv/bin/pip install -q --no-index --disable-pip-version-check "/tmp/$(basename "$(wheel)")"
}

# in_root COMMAND…: its output is in $work/moved. The root has no shell.
in_root() {
    unshare -m -p -f sh -c '
        set -e
        mount -t proc proc "$1/proc"
        cd "$1" && export PATH=/usr/bin:/usr/sbin:/bin:/sbin
        shift
        chroot . "$@"' sh "$work/root" "$@" >"$work/moved" 2>&1 ||
        fail "in a root of $release: $(tail -n 20 "$work/moved")"
}

# moves_in_root PLACE [OPTION…]
moves_in_root() {
    place=$1
    shift
    in_root /tmp/venv/bin/python /tmp/move.py /tmp/venv/bin "$@"
    cat "$work/moved"
    named "$place"
}

case_clean_root() {
    make_root
    moves_in_root /tmp/venv/lib/
    echo "$release, glibc $(chroot "$work/root" /lib64/ld-linux-x86-64.so.2 --version | sed -n '1s/.* \([0-9.]*[0-9]\).*/\1/p')"
}

# Debian 13's package of libfabric, with the providers that it has.
case_debian_libfabric() {
    [ $release = trixie ] || skip "$release's libfabric is older than the wheel's"
    make_root
    status=0
    sh "$root/tests/support/debian_packages.sh" unpack $release amd64 "$root/build/debian13/package" libfabric1 \
        >"$work/packages.log" 2>&1 || status=$?
    [ $status != 77 ] || skip "$(tail -n 1 "$work/packages.log")"
    [ $status = 0 ] || fail "$(tail -n 5 "$work/packages.log")"
    cp -an "$root/build/debian13/package/root/usr/lib/." "$work/root/usr/lib/"
    moves_in_root /usr/lib/x86_64-linux-gnu/libfabric.so.1 --libfabric /usr/lib/x86_64-linux-gnu
}

# ---- all of them

if [ "${1:-}" = --hidden ]; then
    trap - EXIT
    work=$2 build=$3
    hidden
    exit 0
fi

run_case() {
    echo "== $1"
    status=0
    ("case_$1") || status=$?
    case $status in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)) ;;
    *) failed=$((failed + 1)) ;;
    esac
}

[ "$(uname -m)" = x86_64 ] || { echo "wheel: the processor is $(uname -m): no wheel is made for it" && exit 77; }
[ -e "$build/build.ninja" ] || { echo "wheel: $build is no build: sh tests/run.sh --stages wheel makes one" >&2 && exit 1; }
sh "$root/tests/support/install.sh" wheel >&2
make_wheel
ls -l "$(wheel)"
for name in ${*:-content same_bytes venv other_libfabric old_libfabric no_rdma uninstall clean_root debian_libfabric}; do
    run_case "$name"
done
echo "wheel: $passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]
