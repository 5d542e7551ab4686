#!/bin/sh
# Goal: a replay in virtual time repeats itself, plays write by write to the same figures, finds planted faults,
# writes a trace that kvrail compare reads; plan-fleet names a fleet. Fleets and traces are small: RESULTS.md
# has the large one.
set -eu
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/virtual-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "virtual_smoke: $1" >&2
    exit 1
}

# play NAME OPTION…: its figures in NAME.json
play() {
    name=$1
    shift
    "$kvrail" replay --virtual --requests 60 --hosts 2:1 --layers 8 --json "$work/$name.json" "$@" >"$work/$name.text"
}

# figure NAME KEY
figure() {
    sed -n "s/^ *\"$2\": \"\{0,1\}\([0-9a-z.]*\)\"\{0,1\},\{0,1\}$/\1/p" "$work/$1.json" | head -n 1
}

# refused TEXT OPTION…: exit 2, and a sentence with the text
refused() {
    text=$1
    shift
    status=0
    "$kvrail" "$@" >"$work/out" 2>"$work/errors" || status=$?
    [ "$status" = 2 ] || fail "$* ended in $status instead of 2"
    grep -q -e "$text" "$work/errors" || fail "$* was refused without '$text': $(cat "$work/errors")"
}

play first --record "$work/first.kvtrace"
play again
play exact --exact --record "$work/exact.kvtrace.zst"
play other --seed 2
[ -n "$(figure first digest)" ] || fail "no digest"
[ "$(figure first digest)" = "$(figure again digest)" ] || fail "the same seed gave two digests"
[ "$(figure first digest)" != "$(figure other digest)" ] || fail "two seeds gave one digest"
[ "$(figure first writes)" = "$(figure exact writes)" ] || fail "write by write there are other writes"
[ "$(figure first bytes)" = "$(figure exact bytes)" ] || fail "write by write there are other bytes"
[ "$(figure first requests)" = 60 ] || fail "$(figure first requests) requests"
[ "$(figure exact checked_words)" -gt 0 ] || fail "--exact looked at nothing"
grep -q 'The model:' "$work/first.text" || fail "the model's assumptions are not printed"

# The fleet of a real replay, with costs as kvrail bench calibrate writes them.
cat >"$work/costs.json" <<EOF
{"provider": "tcp", "libfabric": "x", "imm_iov": 4, "imm_rma_iov": 4, "pieces": 4, "chunk_bytes_max": 1048576,
 "costs": {"rail_bps": 378000000, "write_ns": 7000, "latency_ns": 17000}}
EOF
set -- --hosts 1:1 --engines 1 --tp 1 --rails 2x0.4G --kv-bytes-per-token 8k --prefill-tokens-per-s 40000 \
    --concurrency 4 --costs "$work/costs.json"
play measured "$@"
play measured_exact "$@" --exact
[ "$(figure measured requests)" = 60 ] || fail "$(figure measured requests) requests with measured costs"
[ "$(figure measured live_max)" = 4 ] || fail "$(figure measured live_max) requests at once instead of 4"
[ "$(figure measured_exact checked_words)" -gt 0 ] || fail "--exact looked at nothing of writes with pieces"
grep -q '0.378 Gb/s' "$work/measured.text" || fail "the measured costs are not named"
sed 's/^ "costs".*/ "x": 1}/' "$work/costs.json" >"$work/without.json"
refused 'has no costs' replay --virtual --costs "$work/without.json"

"$kvrail" trace validate "$work/first.kvtrace" >"$work/valid" || fail "the recorded trace is not valid"
"$kvrail" compare "$work/first.kvtrace" "$work/exact.kvtrace.zst" >"$work/compared" || fail "compare ended badly"
grep -q 'matched *60' "$work/compared" || fail "compare did not match 60 transfers"
grep -q 'not distinguishable' "$work/compared" || fail "write by write is another run"

for fault in page owner; do
    status=0
    "$kvrail" replay --virtual --requests 20 --hosts 1:1 --layers 4 --exact --corrupt $fault --seed 9 \
        >"$work/out" 2>"$work/errors" || status=$?
    [ "$status" = 1 ] || fail "--corrupt $fault ended in $status instead of 1"
    grep -q 'seed 9' "$work/errors" || fail "--corrupt $fault does not name the seed"
done
refused '--rails is .3x100G' replay --virtual --rails 3x100G
refused '--rails is .2x800K' replay --virtual --rails 2x800K
refused '--engines is 3' replay --virtual --engines 3 --tp 4
refused '--costs is .nothing' replay --virtual --costs nothing
refused 'unable to open' replay --virtual --costs "$work/nothing.json"
refused '--hosts is .8' replay --virtual --hosts 8
refused '--tp is 3' replay --virtual --tp 3
refused 'needs --exact' replay --virtual --corrupt page
refused '--prefill has .0' plan-fleet "$work/requests" --prefill 0

"$kvrail" trace synth --requests 150 --seed 3 >"$work/requests" || fail "no trace"
"$kvrail" plan-fleet "$work/requests" --layers 8 --speed 2 --prefill 1,2,4 --decode 1 --rails 32x100G,8x100G \
    --budget 2s --percentile 90 --html "$work/fleet.html" --json "$work/fleet.json" >"$work/fleet.text" ||
    fail "plan-fleet ended badly: $(cat "$work/fleet.text")"
grep -q 'hosts with .* keep p90 of wait within 2.000 s' "$work/fleet.text" || fail "plan-fleet names no fleet"
grep -q 'knee' "$work/fleet.text" || fail "plan-fleet names no knee"
grep -q 'The model:' "$work/fleet.text" || fail "plan-fleet does not say what it takes for granted"
grep -q '<svg' "$work/fleet.html" || fail "the page has no plot"
grep -q '"best": {' "$work/fleet.json" || fail "the JSON has no answer"
status=0
"$kvrail" plan-fleet "$work/requests" --requests 40 --layers 8 --prefill 1 --decode 1 --rails 8x100G --budget 1ms \
    >"$work/fleet.text" || status=$?
[ "$status" = 1 ] || fail "a budget that nothing meets ended in $status instead of 1"

echo "bench.virtual_smoke: passed"
