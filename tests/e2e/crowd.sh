#!/bin/sh
# Goal: hosts that dial a prefill-agent without end, and targets that want what no engine publishes, take
# nothing from the agents that are there, though each shows a good certificate. Method: four sessions with
# 3,000 WANTs each that last as long as they may, and a flood of HELLOs, beside replays. No transfer fails, and
# no engine is given up.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
garbage=$bin/../tests/garbage
[ -x "$garbage" ] || exit 77
secure=yes # strangers without a certificate do not get so far: these have one
prefill_options="--heartbeat 5s"
decode_options=$prefill_options
start_all
replay --requests 20 --seed 1 || fail "the first replay" # the session of the two agents is there

# counter NAME: of the prefill-agent, as the scheduler knows it.
counter() {
    metrics |
        awk -v name="kvrail_$1_total" 'index($1, name) == 1 { sum += $2 } END { print sum + 0 }'
}
rises() { [ "$(counter "$1")" -gt 0 ]; }

# dial NAME ARGUMENT…: as the decode-agent of that name, which has a certificate.
dial() {
    name=$1
    shift
    exec "$garbage" --address "$source_agent" --certificate "$tls/$name.pem" --key "$tls/$name-key.pem" \
        --name "$name" "$@" >>"$work/garbage.log" 2>&1
}

for seed in 1 2 3 4; do
    credentials decode crowd-$seed >/dev/null
    (dial crowd-$seed --kind crowd --sessions 1 --seed $seed) &
    started_pids="$started_pids $!"
done
wait_for 60 rises wants_refused || fail "the crowd has not used up its share of the table"
credentials decode flood >/dev/null
(dial flood --kind hello --sessions 100000000 --seed 9) &
flood_pid=$!
started_pids="$started_pids $flood_pid"
wait_for 30 rises hellos_limited || fail "the flood of HELLOs is not limited"
rounds=0 most=3
[ -z "${KVRAIL_SANITIZE:-}" ] || most=1
while [ $rounds -lt $most ]; do
    rounds=$((rounds + 1))
    replay --requests 60 --concurrency 30 --seed $((rounds + 1)) || fail "the replay ended in $? in a crowd"
    expect verified 60
    expect failed 0
    expect bytes_wrong 0
done
kill -0 $flood_pid || fail "the flood ended before the replays: they met none of it"
[ "$(counter engines_lost)" = 0 ] || fail "an engine was given up"
grep -q 'put off ' "$work/prefill.log" || fail "the log does not name the host that dials"
echo "e2e.crowd: passed, $(counter wants_refused) WANTs and $(counter hellos_limited) HELLOs were refused"
