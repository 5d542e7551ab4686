#!/bin/sh
# Goal: an agent that is stopped for longer than the heartbeat bound and wakes with work queued does no
# harm: its peer has given it up and taken pages back, and what it still does touches none of them.
# Argument: prefill or decode. Method: SIGSTOP and SIGCONT in the middle of a replay that looks for
# bytes that are wrong and for pages that are written after their end; three times.
set -eu
victim=${1:?prefill or decode}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
# Short beats make the stop long beside the bound, whatever else the machine does.
prefill_options="--heartbeat 300ms --quiet 300ms" decode_options=$prefill_options
start_all
victim_pid=$([ "$victim" = prefill ] && echo "$prefill_pid" || echo "$decode_pid")

replay_in_background --requests 2000 --progress --concurrency 16 --pool-bytes 256M --speed 30 \
    --prefill-tokens-per-s 2000
await_progress
for round in 1 2 3; do
    kill -STOP "$victim_pid"
    sleep "$(scaled 2)"
    kill -CONT "$victim_pid"
    sleep 1
    kill -0 "$replay_pid" 2>/dev/null || fail "the replay ended in round $round"
done
kill -INT "$replay_pid"
finish_replay
kill -0 "$prefill_pid" || fail "the prefill-agent died"
kill -0 "$decode_pid" || fail "the decode-agent died"
[ "$(figure failed)" -gt 0 ] || fail "nothing was on its way"
expect bytes_wrong 0
expect pages_written_late 0
[ -z "$(figure failures.timed_out)" ] || fail "some requests had no terminal event"
replay --requests 40 || fail "after it a replay ended in $?"
expect verified 40
