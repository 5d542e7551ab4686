#!/bin/sh
# Goal: endpoints that are replaced again and again in the middle of transfers cost time and nothing
# else. Method: --quiet of 1 ms on both agents takes every late write for a lost one, so that rails are
# recycled and chunks posted again all the time (with acknowledged writes none is late). All share one core
# with others who want it, so that some are late on any machine. Every byte must be right, and there must
# have been retries, or this tested nothing.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
core=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | sed 's/.*[,-]//') # the last
taskset -cp "$core" $$ >/dev/null
prefill_options="--quiet 1ms --no-acknowledge"
decode_options="--quiet 1ms"
start_all
for _ in 1 2; do
    sh -c 'while kill -0 "$1" 2>/dev/null; do i=0; while [ $((i += 1)) -lt 100000 ]; do :; done; done' sh $$ &
done
for seed in 1 2 3; do
    replay --requests 60 --concurrency 16 --seed $seed || fail "replay of seed $seed"
    retries=$((${retries:-0} + $(figure retries)))
done
[ "$retries" -gt 0 ] || fail "no rail was recycled: the machine is too quiet for this test"
echo "e2e.storm: passed, $retries writes were posted again"
