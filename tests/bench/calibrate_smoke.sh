#!/bin/sh
# Goal: `kvrail bench calibrate` keeps its measurement, and an agent with the same state folder uses it. An
# invalid file is refused with a sentence, unless an option makes the agent ignore it.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail prefill-agent
says() {
    grep -q -- "$2" "$1" || fail "$(basename "$1") does not say '$2': $(cat "$1")"
}
# agent NAME OPTION...: starts one with the state folder.
agent() {
    name=$1
    shift
    start "$name" "$bin/prefill-agent" --name "$name" --engine-socket "$work/$name.sock" \
        --listen 127.0.0.1:0 --provider tcp --insecure --state-dir "$work/state" "$@"
}

status=0
timeout 20 "$bin/kvrail" bench calibrate --provider tcp --state-dir /nowhere/state >"$work/table" 2>"$work/errors" ||
    status=$?
[ "$status" = 1 ] || fail "a state folder that cannot be made ended in $status"
says "$work/errors" '^kvrail bench calibrate: /nowhere/state: No such file or directory$'
[ ! -s "$work/table" ] || fail "it measured what it could not keep"

"$bin/kvrail" bench calibrate --provider tcp --rounds 1 --state-dir "$work/state" \
    --json "$work/figures.json" >"$work/table" || fail "it ended in $?"
says "$work/table" 'carries [1-9] pieces'
for key in imm_iov imm_rma_iov pieces chunk_bytes_max; do
    says "$work/figures.json" "\"$key\": [1-9]"
    says "$work/state/calibration-tcp.json" "\"$key\": [1-9]"
done
says "$work/table" 'a rail carries [0-9.]* Gb/s'
for key in rail_bps write_ns latency_ns; do
    says "$work/figures.json" "\"$key\": [1-9]"
    says "$work/state/calibration-tcp.json" "\"$key\": [1-9]"
done
status=0
"$bin/kvrail" bench calibrate --provider tcp --rounds 1 --target-netns "$work/none" >"$work/table" 2>"$work/errors" ||
    status=$?
[ "$status" = 1 ] || fail "a namespace that is not there ended in $status"
says "$work/errors" "target-netns $work/none: No such file"
"$bin/kvrail" bench calibrate --provider local --rounds 1 >"$work/table" || fail "local ended in $?"
says "$work/table" 'a rail carries [0-9.]* Gb/s'
agent calibrated
await calibrated "$work/calibrated.sock"
says "$work/calibrated.log" 'calibrated with libfabric'
kill "$started" && wait "$started" # the agent holds the state folder

echo '{"provider": "tcp"}' >"$work/state/calibration-tcp.json"
agent spoilt
wait "$started" && fail "an invalid calibration was accepted"
says "$work/spoilt.log" 'measure again with kvrail bench calibrate'
agent careless --no-calibration
await careless "$work/careless.sock"
echo "bench.calibrate_smoke: passed"
