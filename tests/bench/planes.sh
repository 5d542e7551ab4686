#!/bin/sh
# Goal: rails in isolated planes carry at least 0.95 of the sum of the raw loops of the same pairs, each alone:
# where the target has four rails in another order, three of them, and two. Method: `kvrail bench push --planes`
# with rails capped far below the machine's speed, so that the rails and not the cores set the limit; the median
# of the pairs of turns counts. A campaign has five pairs of each and requires the bar. The everyday run, on a
# machine that may be busy, has one short pair of the first, and requires a half within three tries.
set -eu
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/planes.XXXXXX")
trap 'rm -rf "$work"' EXIT
pairs=${KVRAIL_CAMPAIGN:+5}
seconds=${KVRAIL_CAMPAIGN:+2}
bar=${KVRAIL_CAMPAIGN:+950}
bar=${bar:-500}

fail() {
    echo "planes: $1" >&2
    exit 1
}

# measure PLANES: in per mille; 75: the raw loops were uneven.
measure() {
    status=0
    "$kvrail" bench push --netns 4 --planes "$1" --rail-mbits 300 --pages 128 --pairs "${pairs:-1}" \
        --seconds "${seconds:-0.5}" --json "$work/figures.json" >"$work/table" 2>"$work/errors" || status=$?
    ! grep -q 'no planes on' "$work/errors" || { cat "$work/errors" >&2; exit 77; }
    [ "$status" = 0 ] || [ "$status" = 75 ] || fail "$(cat "$work/errors")"
    ratio=$(sed -n 's/^  "ratio": \([0-9.]*\),*$/\1/p' "$work/figures.json" | awk '{ printf "%d", $1 * 1000 }')
    sed -n '/pair/,$p' "$work/table"
    echo "planes $1: $ratio per mille of the sum of the raw loops"
}

for planes in 3,1,4,2 ${KVRAIL_CAMPAIGN:+4,1,3 2,4}; do
    tries=${KVRAIL_CAMPAIGN:+1}
    tries=${tries:-3}
    measure $planes
    while [ "$ratio" -lt "$bar" ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || fail "planes $planes: $ratio per mille, $bar are required"
        measure $planes
    done
done
