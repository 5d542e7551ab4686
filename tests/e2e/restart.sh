#!/bin/sh
# Goal: every program can be restarted, in any order, while the others stay, and a scheduler that is
# gone stops no transfer. SIGTERM ends each with exit 0.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all

# stop PID: politely.
stop() {
    kill "$1"
    status=0
    wait "$1" || status=$?
    [ $status = 0 ] || fail "SIGTERM ended process $1 with $status"
}

moves() {
    replay --requests 20 || fail "$1, a replay ended in $?"
    expect verified 20
}

moves "at first"
stop "$scheduler_pid"
moves "without a scheduler"
start_scheduler
moves "with the scheduler back"
stop "$prefill_pid"
start_prefill
moves "with the prefill-agent back"
stop "$decode_pid"
start_decode
moves "with the decode-agent back"
stop "$prefill_pid"
stop "$decode_pid"
start_decode
start_prefill
moves "with both back"
stop "$prefill_pid"
stop "$decode_pid"
stop "$scheduler_pid"
