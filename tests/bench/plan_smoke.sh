#!/bin/sh
# Goal: `kvrail bench plan` prints all promised figures, a plan of 131,072 tokens takes less than 2 MiB,
# and an impossible plan is refused. RESULTS.md has the times.
set -eu
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/plan-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "plan_smoke: $1" >&2
    exit 1
}

figure() {
    sed -n "s/^ *\"$1\": \([0-9.]*\),\{0,1\}$/\1/p" "$work/figures.json"
}

"$kvrail" bench plan --runs 3 --json "$work/figures.json" >"$work/table"
grep -q 'pages at random' "$work/table" || fail "no table beside the file of --json"
[ "$(figure chunks)" = 327680 ] || fail "$(figure chunks) writes for 1310720 pages, four in each"
[ "$(figure bytes)" = 42949672960 ] || fail "$(figure bytes) bytes"
[ "$(figure contiguous_chunks)" = 40960 ] || fail "$(figure contiguous_chunks) writes of 1 MiB in a row"
[ "$(figure plan_bytes)" -lt 2097152 ] || fail "the plan has $(figure plan_bytes) bytes"
for key in plan_us contiguous_us; do
    [ -n "$(figure $key)" ] || fail "no $key in the JSON"
done

"$kvrail" bench plan --runs 1 --layout vllm-hnd --heads 8 --target-heads 4 --target-page-tokens 64 >"$work/table"
grep -q 'pages at random' "$work/table" || fail "no table"
status=0
"$kvrail" bench plan --layout mla --heads 8 2>"$work/errors" || status=$?
[ "$status" = 2 ] || fail "eight heads of MLA ended in $status instead of 2"
grep -q 'mla has head 0 alone' "$work/errors" || fail "eight heads of MLA were refused without a sentence"
status=0
"$kvrail" bench plan --runs 1 --tokens 64 --head-bytes 3 2>"$work/errors" >"$work/table" || status=$?
[ "$status" = 2 ] || fail "heads of three bytes ended in $status instead of 2"
grep -q -- '--head-bytes is 3' "$work/errors" || fail "heads of three bytes were refused without a sentence"

echo "bench.plan_smoke: passed"
