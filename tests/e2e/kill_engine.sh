#!/bin/sh
# Goal: kill -9 of an engine in the middle of a replay. Argument: source or target. The other engine
# gets a terminal event with a reason for everything that was on its way, in under 5 s, and both agents
# go on and forget what the dead one held. With device=emulated pages are an emulated device's, over many
# allocations, and copies are under way; of what the dead engine lent no descriptor and no mapping stays.
# Method: a modelled prefill, so that transfers last.
set -eu
victim=${1:?source or target}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
lent=
if [ -n "${device:-}" ]; then
    prefill_options="--device $device --staging-memory 3M" decode_options=$prefill_options
    lent='--device-memory both --allocation-bytes 1M'
fi
start_all
# shellcheck disable=SC2086 # options
replay_in_background --requests 2000 --progress --concurrency 16 --pool-bytes 256M --speed 30 \
    --prefill-tokens-per-s 1000 $lent
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
# On one host the target may have seen first, by the source's revocation words, what it was in the middle of.
[ -n "$(figure ${other}_outcomes.engine_lost)$(figure ${other}_outcomes.revoked)" ] ||
    fail "the $other engine got no event for the end of the $victim engine"
kill -0 "$prefill_pid" 2>/dev/null || fail "the prefill-agent died too"
kill -0 "$decode_pid" 2>/dev/null || fail "the decode-agent died too"
# shellcheck disable=SC2086
replay --requests 40 $lent || fail "afterwards a replay ended in $?"
expect verified 40
[ -n "$lent" ] || exit 0
holds_nothing() {
    ! grep -q 'memfd:replay-allocation' "/proc/$1/maps" &&
        [ "$(find "/proc/$1/fd" -lname '/memfd:replay-allocation*' | wc -l)" -eq 0 ]
}
for pid in $prefill_pid $decode_pid; do
    wait_for 30 holds_nothing "$pid" || fail "process $pid keeps allocations of engines that are gone"
done
