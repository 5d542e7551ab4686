#!/bin/sh
# Goal: `kvrail bench connector` finds its package, prints all promised figures, asks libkvrail for
# events once a step for each agent, and says what is missing. RESULTS.md has the times.
set -eu
kvrail=$KVRAIL_BIN_DIR/kvrail
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "no python3 of version 3.10 or later" >&2
    exit 77
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/connector-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1
unset PYTHONPATH

fail() {
    echo "connector_smoke: $1" >&2
    exit 1
}

figure() {
    sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}$/\1/p" "$work/figures.json"
}

"$kvrail" bench connector --requests 100 --pages 8 --rounds 5 --json "$work/figures.json" >"$work/table"
grep -q 'a step without transfers' "$work/table" || fail "no table beside the file of --json"
for work_of in publish fetch step; do
    for key in us scheduler_us scheduler_us_least scheduler_us_most worker_us calls; do
        [ -n "$(figure "${work_of}_$key")" ] || fail "no ${work_of}_$key in the JSON"
    done
done
[ "$(figure requests)" = 100 ] || fail "$(figure requests) requests in flight instead of 100"
[ "$(figure step_calls)" = 2.0 ] || fail "$(figure step_calls) calls of libkvrail in a step, for two agents"

"$kvrail" bench connector --requests 1 --rounds 1 --json >"$work/figures.json"
[ "$(figure rounds)" = 1 ] || fail "--json alone does not write to standard output"

status=0
"$kvrail" bench connector --python "$work/none" 2>"$work/errors" || status=$?
[ "$status" = 1 ] || fail "no interpreter ended in $status instead of 1"
grep -q "none cannot be run" "$work/errors" || fail "no interpreter, and no sentence"
cp "$kvrail" "$work/kvrail" # far from any package
status=0
PYTHONPATH='' LD_LIBRARY_PATH="$KVRAIL_BIN_DIR/../lib" "$work/kvrail" bench connector --rounds 1 2>"$work/errors" ||
    status=$?
[ "$status" = 1 ] || fail "no package ended in $status instead of 1"
grep -q 'has no module kvrail' "$work/errors" || fail "no package, and no sentence: $(cat "$work/errors")"
status=0
"$kvrail" bench connector --requests 0 2>"$work/errors" || status=$?
[ "$status" = 2 ] || fail "no request in flight ended in $status instead of 2"

echo "bench.connector_smoke: passed"
