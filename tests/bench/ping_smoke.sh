#!/bin/sh
# Goal: `kvrail bench ping` measures all three ways, asleep and spinning, and leaves nothing behind.
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
[ "$(grep -c '"pings": 5$' "$work/figures.json")" = 6 ] || fail "pings were lost"
[ -z "$(ls -A "$work/tmp")" ] || fail "it left $(ls "$work/tmp") behind"
echo "bench.ping_smoke: passed"
