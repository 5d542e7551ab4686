#!/bin/sh
# Goal: kill -9 of an agent in the middle of a replay. Argument: prefill or decode. Both engines soon get a
# terminal event with a reason for every transfer under way, and the other agent stays. The killed agent,
# started again, serves the same engines and the same other agent. Method: a modelled prefill, so that
# transfers last and the kill meets some of them half done.
set -eu
victim=${1:?prefill or decode}
# The replay gives up on what it hears nothing of for 10 s, whatever scale the agents' times have.
export KVRAIL_TIME_SCALE=100
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all

# Gone when this returns: before, its successor would find the state directory in use.
kill_victim() {
    killed=$decode_pid
    [ "$victim" = decode ] || killed=$prefill_pid
    kill -9 "$killed"
    wait "$killed" 2>/dev/null || true
}

survivor_lives() {
    if [ "$victim" = prefill ]; then
        kill -0 "$decode_pid" 2>/dev/null || fail "the decode-agent died too"
    else
        kill -0 "$prefill_pid" 2>/dev/null || fail "the prefill-agent died too"
    fi
}

# Without --reconnect the replay ends by itself. False where the kill met no transfer.
kill_in_replay() {
    replay_in_background --requests 2000 --progress --concurrency 16 --pool-bytes 256M --speed 30 \
        --prefill-tokens-per-s 1000
    await_progress
    kill_victim
    finish_replay
    [ "$replay_status" = 1 ] || fail "the replay ended in $replay_status"
    survivor_lives
    # Found by silence in three heartbeats, 3 s, and settled: 5 s, and as much again for a busy machine.
    # The lease of 30 s and the deadline of 120 s would also end it, but later.
    expect_most settle_ms "$(scaled 10000)"
    expect bytes_wrong 0
    expect pages_written_late 0
    [ -z "$(figure failures.timed_out)" ] || fail "some requests had no terminal event"
    [ "$(figure failed)" -gt 0 ] && return
    rm -f "$work/replay.log"
    "start_$victim"
    false
}
until_met 5 kill_in_replay || fail "nothing was on its way in five attempts"
# The engine of the dead agent gets the event from its library, the other engine from its agent. On one host
# the library may have revoked pages that the agent was copying.
if [ "$victim" = prefill ]; then
    told="source_outcomes.agent_lost target_outcomes.peer_lost/target_outcomes.revoked"
else
    told="target_outcomes.agent_lost source_outcomes.peer_lost"
fi
for reason in $told; do
    [ -n "$(figure "${reason%/*}")$(figure "${reason#*/}")" ] || fail "there is no $reason"
done

# With it, the engines go on with the rest once the agent is back.
"start_$victim"
rm -f "$work/replay.log"
replay_in_background --requests 240 --progress --concurrency 16 --pool-bytes 256M --speed 30 \
    --prefill-tokens-per-s 10000 --reconnect
await_progress
kill_victim
"start_$victim"
finish_replay
[ "$replay_status" = 1 ] || fail "the replay with --reconnect ended in $replay_status"
survivor_lives
expect not_started 0
expect bytes_wrong 0
[ "$(figure completed)" -gt 100 ] || fail "only $(figure completed) requests were completed"
# Those that were on their way, and those that met the old session before the agents noticed.
[ "$(figure failed)" -le 32 ] || fail "$(figure failed) requests failed, more than were on their way"

# And nothing is left of it.
replay --requests 40 || fail "after the restart a replay ended in $?"
expect verified 40
for option in "--reconnect-for never" "--agent-pids 1,x"; do
    status=0
    # shellcheck disable=SC2086 # an option and its value
    replay --requests 1 $option || status=$?
    [ $status = 2 ] || fail "$option was taken, and the replay ended in $status"
done
