#!/bin/sh
# Goal: a receiver that is killed (kill -9 of the decode-agent) leaves nothing behind. Both engines get a
# reason for every transfer under way, within killed_bound_ms (agents.sh). Started again, it gets writes from
# the same prefill-agent. Argument: idle or busy, the state of the receiver when it is killed.
set -eu
when=${1:?idle or busy}
. "$KVRAIL_ROOT_DIR/tests/verbs/agents.sh"
agents_with "1 2" "5 6"
write_trace 200
replay_trace 10 || fail "at first, a replay ended in $?"
expect_good 10

if [ "$when" = busy ]; then
    rm -f "$work/replay.log"
    replay_in_background --trace "$trace" --format azure --requests 200 --progress
    await_progress
    kill -9 "$decode_pid"
    finish_replay
    [ "$replay_status" = 1 ] || fail "the replay ended in $replay_status"
    expect_most settle_ms "$killed_bound_ms"
    echo "within: all was settled after $(figure settle_ms) ms of at most $killed_bound_ms"
    [ "$(figure failed)" -gt 0 ] || fail "nothing was on its way"
    expect bytes_wrong 0
    expect pages_written_late 0
    [ -z "$(figure failures.timed_out)" ] || fail "some requests had no terminal event"
    [ -n "$(figure target_outcomes.agent_lost)" ] || fail "the target's engine got no reason"
    [ -n "$(figure source_outcomes.peer_lost)" ] || fail "the source's engine got no reason"
else
    kill -9 "$decode_pid"
fi
kill -0 "$prefill_pid" 2>/dev/null || fail "the prefill-agent died too"
start_decode
replay_trace 10 || fail "after the restart, a replay ended in $?"
expect_good 10
