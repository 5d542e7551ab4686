#!/bin/sh
# Goal: `kvrail bench push --netns` lays capped rails where the machine allows it and says which way it
# took, moves the pages over all of them, also where the sides' numbers of rails differ, and leaves no
# namespace, link or process behind. Method: short turns; no verdict about speed.
set -eu
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/netns-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"

fail() {
    echo "netns_smoke: $1" >&2
    exit 1
}

for shape in "--netns 3 --slow-mbits 100" "--netns 3 --target-rails 2" "--netns 1 --target-rails 2"; do
    status=0
    # shellcheck disable=SC2086 # a list of options
    TMPDIR=$work/tmp "$kvrail" bench push $shape --rail-mbits 400 --pages 64 --pool-bytes 32M --pairs 1 \
        --seconds 0.1 --json "$work/figures.json" >"$work/table" || status=$?
    [ "$status" = 0 ] || fail "$shape ended in $status"
    for key in ratio raw_rails_gb_s way target_rails; do
        grep -q "\"$key\"" "$work/figures.json" || fail "$shape: no $key in the JSON"
    done
    grep -Eq '^rails: (veth pairs|loopback)' "$work/table" || fail "it does not say which rails it has"
    ! grep -q '"ratio": 0\(\.0\)\{0,1\},' "$work/figures.json" || fail "$shape moved nothing"
    grep '^rails:' "$work/table"
done
[ -z "$(ls -A "$work/tmp")" ] || fail "it left $(ls "$work/tmp") behind"
! ip link show 2>/dev/null | grep -q ' control@' || fail "it left its cables behind"
echo "bench.netns_smoke: passed"
