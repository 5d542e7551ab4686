#!/bin/sh
# Goal: a decode-agent with configured prefill-agents connects to them before the first fetch, rails included.
# A peer that is absent is logged once and disturbs no other; a peer that returns is connected again.
# Method: logs of agents without engines, then a replay.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent

# await_count FILE TEXT COUNT: until the file has it so often.
await_count() {
    wait_for 30 has_count "$@" || fail "$(basename "$1") does not say '$2' $3 times: $(cat "$1")"
}

has_count() { [ "$(grep -cF -- "$2" "$1")" -ge "$3" ]; }

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
    fail "an absent peer is logged again and again: $(cat "$work/decode.log")"

replay --requests 4 || fail "a replay ended in $?"
expect verified 4
echo "wanted: passed"
