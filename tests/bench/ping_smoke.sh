#!/bin/sh
# Goal: `kvrail bench ping` measures all three ways, asleep and spinning, and leaves nothing behind. The
# parts of each way add up to the whole.
set -eu
work=$(mktemp -d "${TMPDIR:-/tmp}/ping-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"

fail() {
    echo "ping_smoke: $1" >&2
    exit 1
}

TMPDIR=$work/tmp "$KVRAIL_BIN_DIR/kvrail" bench ping --provider "${1:-tcp}" --page-bytes 16k --pings 5 \
    --json "$work/figures.json" >"$work/table" || fail "it ended in $?"
for key in raw agents engines; do
    grep -q "\"$key\": {" "$work/figures.json" || fail "no $key in the JSON"
    grep -q "^  $key " "$work/table" || fail "no $key in the table"
done
[ "$(grep -c '"p50_us": [1-9]' "$work/figures.json")" = 6 ] || fail "a median is 0: $(cat "$work/figures.json")"
[ "$(grep -c '"pings": 5,' "$work/figures.json")" = 6 ] || fail "pings were lost"
# Compares the sum of the parts with the whole; an engine's way has six parts, a raw one two.
awk '
    /"(middle|above_raw)_us":/ { split($0, field, ": "); whole = field[2] + 0 }
    /"(above_raw_)?parts_us":/ { inside = 1; sum = parts = 0; off = 0.01; next }
    inside && /}/ {
        inside = 0; tables++; counted += parts
        if (sum - whole > off || whole - sum > off) { print "parts of", sum, "us explain", whole; exit 1 }
    }
    inside {
        split($0, field, ": "); sum += field[2]; parts++
        off += 2e-5 * (field[2] < 0 ? -field[2] : field[2]) # figures have six digits
    }
    END { if (tables != 12 || counted != 44) { print tables, "tables with", counted, "parts"; exit 1 } }
' "$work/figures.json" || fail "$(cat "$work/figures.json")"
for station in seen posted landed loop told read sum; do
    grep -q "^  $station " "$work/table" || fail "no $station in the table"
done
[ -z "$(ls -A "$work/tmp")" ] || fail "it left $(ls "$work/tmp") behind"
echo "bench.ping_smoke: passed"
