#!/bin/sh
# Goal: `kvrail bench push --netns` lays capped rails where the machine allows it, and prints which kind it
# took: with all privilege, as an unprivileged user, and where nothing is allowed. It moves the pages over
# all rails, also where the sides' numbers of rails differ. It leaves no namespace, link or process behind.
# Method: short turns; the speed is not judged.
set -eu
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/netns-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"

fail() {
    echo "netns_smoke: $1" >&2
    exit 1
}

# push NAME SHAPE PROGRAM...: runs the bench through the program, which may take rights away.
push() {
    name=$1 shape=$2
    shift 2
    status=0
    # shellcheck disable=SC2086 # a list of options
    TMPDIR=$work/tmp "$@" "$kvrail" bench push $shape --rail-mbits 400 --pages 64 --pool-bytes 32M --pairs 1 \
        --seconds 0.1 --json "$work/tmp/figures.json" >"$work/table" || status=$?
    [ "$status" = 0 ] || fail "$name: $shape ended in $status"
    for key in ratio raw_rails_gb_s way target_rails; do
        grep -q "\"$key\"" "$work/tmp/figures.json" || fail "$name: $shape: no $key in the JSON"
    done
    ! grep -q '"ratio": 0\(\.0\)\{0,1\},' "$work/tmp/figures.json" || fail "$name: $shape moved nothing"
    rm "$work/tmp/figures.json"
    echo "$name: $(grep '^rails:' "$work/table")"
}
# takes WAY...: fails unless the bench took one of these.
takes() {
    for way in "$@"; do
        grep -q "^rails: $way" "$work/table" && return
    done
    fail "$name: it prints $(grep '^rails:' "$work/table")"
}
# may PROGRAM...: true if it can run here.
may() { "$@" true 2>/dev/null; }
powerless="setpriv --bounding-set=-all --inh-caps=-all"
nobody="$powerless --reuid=65534 --regid=65534 --clear-groups"
chmod 711 "$work"
chmod 777 "$work/tmp"

push "as the present user" "--netns 3 --slow-mbits 100" env
takes "veth pairs in network namespaces" "loopback addresses, uncapped: "
! grep -q "^rails: veth" "$work/table" || push "with planes" "--netns 3 --planes 3,1" env
for planes in 3,3 1,4 0 1x; do
    status=0
    "$kvrail" bench push --netns 3 --planes $planes 2>"$work/refusal" || status=$?
    [ "$status" = 2 ] && grep -q "each once" "$work/refusal" || fail "--planes $planes ended in $status"
done
# shellcheck disable=SC2086 # programs with their options
if may $nobody && $nobody test -x "$kvrail"; then
    push "as nobody" "--netns 3 --target-rails 2" $nobody
    if may $nobody unshare -rn; then
        takes "veth pairs in network namespaces of a user namespace"
    else
        takes "loopback addresses, uncapped: .*user namespaces: "
    fi
fi
# shellcheck disable=SC2086
if may unshare -Ur $powerless; then
    push "where nothing is allowed" "--netns 1 --target-rails 2" unshare -Ur sh -c \
        "echo 0 >/proc/sys/user/max_user_namespaces && exec $powerless \"\$@\"" sh
    takes "loopback addresses, uncapped: .*user namespaces: none is left"
else
    push "without iproute2" "--netns 1 --target-rails 2" env PATH=/nowhere
    takes "loopback addresses, uncapped: iproute2"
fi
[ -z "$(ls -A "$work/tmp")" ] || fail "it left $(ls "$work/tmp") behind"
! ip link show 2>/dev/null | grep -q ' control@' || fail "it left its cables behind"
echo "bench.netns_smoke: passed"
