#!/bin/sh
# Goal: endpoints that are replaced again and again in the middle of transfers cost time and nothing
# else. Method: --quiet of 1 ms on both agents takes every late write for a lost one, so that rails are
# recycled and chunks posted again all the time (with acknowledged writes none is late). All share one core
# with programs that want it too, one more in each round, so that some are late on any machine. Every byte
# must be right. Rounds go on until writes were posted again.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
core=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | sed 's/.*[,-]//') # the last
taskset -cp "$core" $$ >/dev/null
# Heartbeats are longer than any of them may wait for the core.
prefill_options="--quiet 1ms --heartbeat 5s --no-acknowledge"
decode_options="--quiet 1ms --heartbeat 5s"
start_all
seed=0 retries=0

round() {
    sh -c 'while kill -0 "$1" 2>/dev/null; do i=0; while [ $((i += 1)) -lt 100000 ]; do :; done; done' sh $$ &
    seed=$((seed + 1))
    replay --requests 60 --concurrency 16 --seed $seed || fail "replay of seed $seed"
    retries=$((retries + $(figure retries)))
    [ $seed -ge 3 ] && [ $retries -gt 0 ]
}
until_met 20 round || fail "no rail was recycled in $seed rounds"
echo "e2e.storm: passed, $retries writes were posted again in $seed rounds"
