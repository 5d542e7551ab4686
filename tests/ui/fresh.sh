#!/bin/sh
# Goal: the committed bundle of the dashboard is what its sources give, byte for byte, and is small.
# Method: builds it anew into a folder of its own; ends with 77 where node or npm's registry is not to be had.
set -eu

bytes_max=102400 # of all that a browser loads, compressed
cd "$(dirname "$0")/../.."
work=$(mktemp -d /tmp/kvrail-fresh-XXXXXX)
trap 'rm -rf "$work"' EXIT
status=0
sh web-ui/build.sh "$work/dist" >"$work/log" 2>&1 || status=$?
cat "$work/log"
[ "$status" -eq 0 ] || exit "$status"
if ! diff -rq "$work/dist" web-ui/dist; then
    echo "not ok: web-ui/dist is not what web-ui/src gives: run sh web-ui/build.sh, and commit its result"
    exit 1
fi
bytes=$(for file in web-ui/dist/index.html web-ui/dist/app-*; do gzip -9c "$file" | wc -c; done | awk '{sum += $1} END {print sum}')
echo "the bundle has $bytes bytes, compressed"
if [ "$bytes" -gt "$bytes_max" ]; then
    echo "not ok: the bundle may have $bytes_max bytes, compressed"
    exit 1
fi
