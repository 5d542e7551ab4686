#!/bin/sh
# Goal: `kvrail bench beside` moves small transfers alone and beside a large one, prints their times and the
# allowed times, and leaves nothing behind. The times themselves are not judged.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}/beside-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"

fail() {
    echo "beside_smoke: $1" >&2
    exit 1
}

TMPDIR=$work/tmp "$KVRAIL_BIN_DIR/kvrail" bench beside --huge-bytes 128M --rounds 2 \
    --warm-up no --rest 1ms --agents spin=50us --json "$work/figures.json" >"$work/table" || fail "it ended in $?"
for key in first_us first_ratio first_ratio_in_a_row rested_us alone_us alone_control_us beside_us beside_control_us huge_gb_s passed_bytes window_us allowed_us; do
    grep -q "\"$key\": [0-9.]*[1-9]" "$work/figures.json" || fail "no $key in the JSON"
done
[ "$(grep -c '"beside_count": [1-9]' "$work/figures.json")" = 2 ] || fail "no small transfer beside the large one"
grep -q '"warm_up": "no"' "$work/figures.json" || fail "--warm-up no had no effect"
grep -q 'beside the huge one' "$work/table" || fail "no table"
# The huge transfer is whole pages.
TMPDIR=$work/tmp "$KVRAIL_BIN_DIR/kvrail" bench beside --huge-bytes 64M --page-bytes 48k --rounds 1 --rest 1ms \
    --json "$work/warm.json" >/dev/null || fail "with warm rails it ended in $?"
grep -q '"huge_bytes": 67092480,' "$work/warm.json" || fail "it counts bytes that it does not move"
grep -q '"at_once": false' "$work/warm.json" || fail "it did not wait for warm rails"
[ -z "$(ls -A "$work/tmp")" ] || fail "it left $(ls "$work/tmp") behind"
echo "bench.beside_smoke: passed"
