#!/bin/sh
# Goal: an agent that is stopped for longer than the heartbeat bound, and continues with work in its queues,
# does no harm. Its peer has given it up and taken pages back; its late writes must touch none of them.
# Argument: prefill or decode. Method: SIGSTOP and SIGCONT in the middle of a replay, three times, each until
# the peer has lost the stopped agent and found it again. The replay looks for wrong bytes and for pages
# that are written after their end. The stopped agent says that it did not run, and calls no peer silent for that time.
set -eu
victim=${1:?prefill or decode}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
# Short beats make the stops short; a busy machine must not be taken for a peer that is lost.
prefill_options="--heartbeat 1s --quiet 300ms" decode_options=$prefill_options
watch_keys
start_all
victim_pid=$([ "$victim" = prefill ] && echo "$prefill_pid" || echo "$decode_pid")

survivor_log=$work/$([ "$victim" = prefill ] && echo decode || echo prefill).log
victim_log=$work/$victim.log

# lines TEXT: how many lines of the other agent's log have it.
lines() { grep -c -- "$1" "$survivor_log"; }
more_lines() { [ "$(lines "$1")" -gt "$2" ]; }

said_so() { [ "$(grep -c 'this process did not run for' "$victim_log")" -ge "$1" ]; }

# False where no stop met a transfer.
freeze_thrice() {
    replay_in_background --requests 2000 --progress --concurrency 16 --pool-bytes 256M --speed 30 \
        --prefill-tokens-per-s 2000
    await_progress
    for round in 1 2 3; do
        lost=$(lines 'is lost') up=$(lines 'is up')
        kill -STOP "$victim_pid"
        wait_for 30 more_lines 'is lost' "$lost" || fail "the peer of a stopped agent is not lost"
        ended=$(progress)
        kill -CONT "$victim_pid"
        wait_for 30 more_lines 'is up' "$up" || fail "the agents do not find each other again"
        await_progress "$ended"
        wait_for 5 said_so "$round" || fail "the stopped agent does not say that it did not run"
    done
    kill -INT "$replay_pid"
    finish_replay
    ! grep 'is lost.*nothing was heard from it for [0-9]* ms$' "$victim_log" || fail "it blames its peer"
    is_running "$prefill_pid" || fail "the prefill-agent died"
    is_running "$decode_pid" || fail "the decode-agent died"
    expect bytes_wrong 0
    expect pages_written_late 0
    [ -z "$(figure failures.timed_out)" ] || fail "some requests had no terminal event"
    [ "$(figure failed)" -gt 0 ]
}
until_met 3 freeze_thrice || fail "nothing was on its way in three attempts"
replay --requests 40 || fail "after it a replay ended in $?"
expect verified 40
expect_keys_hold
