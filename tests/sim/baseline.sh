#!/bin/sh
# The first 2,000 worlds count the same transfers, writes, outcomes and faults as baseline.json.
#
#   sh tests/sim/baseline.sh [--write]
#
# A change that keeps the behaviour keeps the file. A change that may alter the counts writes the file
# anew (--write), and its commit gives the reason.
set -eu

file=$(cd "$(dirname "$0")" && pwd)/baseline.json
json=$("$KVRAIL_BIN_DIR/kvrail" sim --seeds 1:2000 --json) || {
    echo "$json"
    exit 1
}
# One count a line, without the speed.
counts=$(echo "$json" | sed 's/"seeds_per_s":[0-9.]*,//' | tr ',' '\n')
if [ "${1:-}" = --write ]; then
    echo "$counts" >"$file"
    exit 0
fi
echo "$counts" | diff "$file" - || {
    echo "the simulator's counts differ from $file (< before, > now)"
    exit 1
}
