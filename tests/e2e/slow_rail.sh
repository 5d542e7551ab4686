#!/bin/sh
# Goal: a rail that became slow between two recordings is named by `kvrail compare`, and so is the stage that it
# cost. Method: agents in two network namespaces with two capped rails. A replay is recorded; one rail gets a tenth;
# the same requests are played and recorded again, with the same key. Two recordings without a change between them
# name no rail. The host may be so loaded that a rail's share moves all the same: then another one is made.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent
heartbeat=1s
certificate_options="--host 10.78.9.1"
lay_cables 2
cap_cables 160mbit

# The scheduler lives with the source.
# shellcheck disable=SC2046 # options
start scheduler ip netns exec "$source_space" "$bin/kvrail-scheduler" $(credentials scheduler scheduler) \
    --listen 10.78.9.1:0 --port-file "$work/scheduler.port" --state-dir "$work/scheduler"
await scheduler "$work/scheduler.port"
scheduler=10.78.9.1:$(cat "$work/scheduler.port")
prefill_options="--scheduler $scheduler --state-dir $work/prefill --spans-every 1 --quiet 1s"
decode_options="--scheduler $scheduler --state-dir $work/decode --spans-every 1 --quiet 1s"
start_cabled_agents

requests=40
awk -v n=$requests 'BEGIN {
    for (i = 0; i < n; i++)
        printf "{\"timestamp\": %d, \"input_length\": 256, \"output_length\": 1, \"hash_ids\": [%d]}\n", i, i
}' >"$work/trace"
printf '%064x\n' 11 >"$work/key"

# record FILE: false until the recording has both sides of each transfer.
record() {
    # shellcheck disable=SC2046 # variables
    ip netns exec "$source_space" env $(tool_environment) "$bin/kvrail" trace record --scheduler "$scheduler" \
        --since "$(($(date +%s) - began))s" --key-file "$work/key" --output "$work/$1" >"$work/record.log" 2>&1 ||
        fail "no recording: $(cat "$work/record.log")"
    [ "$(grep -c '"source":{.*"rails".*"target":{.*"layers_us"' "$work/$1")" = $requests ]
}

# play FILE: the requests, and their recording.
play() {
    sleep 2 # nothing of the replay before
    began=$(($(date +%s) - 1))
    replay --trace "$work/trace" --requests 0 --no-prefix-cache --kv-bytes-per-token 8k --concurrency 1 ||
        fail "the replay ended in $?"
    expect verified $requests
    wait_for 15 record "$1" || fail "$1 is not whole: $(cat "$work/$1")"
}

compare() { "$bin/kvrail" compare "$work/$1" "$work/$2" --json "$work/compare.json" >"$work/out" || fail "no comparison"; }

# unchanged: one more recording of the same network. False where it and the one before name a rail.
unchanged() {
    [ ! -e "$work/second.kvtrace" ] || mv "$work/second.kvtrace" "$work/first.kvtrace"
    play second.kvtrace
    compare first.kvtrace second.kvtrace
    ! grep -q "rail2 of prefill-0" "$work/out"
}

play first.kvtrace
until_met 4 unchanged || fail "a rail is named where none is slower, four times: $(cat "$work/out")"
for space in "$source_space" "$target_space"; do
    tc -n "$space" qdisc change dev rail2 root tbf rate 16mbit burst 32kb latency 20ms || exit 77
done
play slow.kvtrace
compare second.kvtrace slow.kvtrace
grep -q "\"matched\": $requests,*$" "$work/compare.json" || fail "not all requests are matched"
file_has "$work/out" "B is slower" || fail "the slow rail makes nothing slower: $(cat "$work/out")"
grep -q '"cause": "land"' "$work/compare.json" || fail "the stage is another one: $(cat "$work/out")"
share() { sed -n "s/.*rail rail2 of prefill-0 carried \([0-9]*\)[0-9.]* % of the agent's bytes in A, \([0-9]*\)[0-9.]* % in B/\\$1/p" "$work/out"; }
[ -n "$(share 1)" ] || fail "the slow rail is not named: $(cat "$work/out")"
[ "$(share 2)" -lt "$(share 1)" ] || fail "the slow rail carried more: $(cat "$work/out")"
sed -n '3p; /rails  /,/rail2/p' "$work/out"
