#!/bin/sh
# Goal: a decode-agent that is told of its prefill-agents connects to them before anybody fetches, rails
# included; one that is not there is said once and hinders nobody; one that comes back is connected
# again. Method: logs of agents without engines, then a replay.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent

# await_count FILE TEXT COUNT: until the file has it so often.
await_count() {
    tries=0
    until [ "$(grep -cF -- "$2" "$1")" -ge "$3" ]; do
        tries=$((tries + 1))
        [ $tries -le $((300 * patience)) ] || fail "$(basename "$1") does not say '$2' $3 times: $(cat "$1")"
        sleep 0.1
    done
}

start_scheduler
start_prefill
decode_options="--prefill-agent $source_agent --prefill-agent 127.0.0.1:1 --heartbeat 500ms"
start_decode
await_count "$work/prefill.log" 'is warm: 2 pairs of rails connected' 1
await_count "$work/decode.log" '127.0.0.1:1' 1

kill "$prefill_pid"
wait "$prefill_pid" || fail "the prefill-agent did not end well"
await_count "$work/decode.log" "): $source_agent: " 1 # the session is over
start_prefill
await_count "$work/decode.log" ' is up: ' 2
await_count "$work/prefill.log" 'is warm: ' 2
[ "$(grep -cF '127.0.0.1:1:' "$work/decode.log")" = 1 ] ||
    fail "who is not there is said again and again: $(cat "$work/decode.log")"

replay --requests 4 || fail "a replay ended in $?"
expect verified 4
echo "wanted: passed"
