#!/bin/sh
# Goal: kill -9 of an engine in the middle of a replay. Argument: source or target. The other engine
# gets a terminal event with a reason for everything that was on its way, in under 5 s, and both agents
# go on and forget what the dead one held. Method: a modelled prefill, so that transfers last.
set -eu
victim=${1:?source or target}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all
replay_in_background --requests 2000 --progress --concurrency 16 --pool-bytes 256M --speed 30 \
    --prefill-tokens-per-s 1000
await_progress
kill -9 "$(sed -n "s/^$victim //p" "$work/pids")"
finish_replay
[ "$replay_status" = 1 ] || fail "the replay ended in $replay_status"
expect_most settle_ms "$(scaled 5000)"
expect bytes_wrong 0
expect pages_written_late 0
[ -z "$(figure failures.timed_out)" ] || fail "some requests had no terminal event"
other=source
[ "$victim" = source ] && other=target
[ -n "$(figure ${other}_outcomes.engine_lost)" ] ||
    fail "the $other engine was not told that the $victim engine ended"
kill -0 "$prefill_pid" 2>/dev/null || fail "the prefill-agent died too"
kill -0 "$decode_pid" 2>/dev/null || fail "the decode-agent died too"
replay --requests 40 || fail "afterwards a replay ended in $?"
expect verified 40
