#!/bin/sh
# Goal: each fault that replay can plant in its source engine arrives over real agents and is found:
# exit 1, one request failed, and a line that says which word is wrong.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all
for kind in page layer swap; do
    status=0
    replay --requests 10 --corrupt $kind || status=$?
    [ $status = 1 ] || fail "--corrupt $kind ended in $status"
    expect failed 1
    expect verified 9
    [ "$(figure bytes_wrong)" -gt 0 ] || fail "--corrupt $kind made no byte wrong"
    in_log 'wrong: request [0-9]* .* layer [0-9]*, part [KV], token [0-9]*'
done
replay --requests 10 || fail "after the faults a replay ended in $?"
