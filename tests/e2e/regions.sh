#!/bin/sh
# Goal: REGION_GONE comes once, and when nothing of the agent can touch the memory any more: not when a
# region is dropped while it is registered, twice, or while the agent's tables are full; a device's region
# over two allocations too, of which no descriptor stays. Method: one engine (tests/support/regions.c) that
# reads the agent's maps, once with memory of the host, once with an emulated device's.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent ../tests/regions
start_scheduler
prefill_options="--table-memory 64M --device emulated"
start_prefill
for spread in '' spread; do
    timeout $((60 * patience)) "$bin/../tests/regions" "$work/source.sock" "$prefill_pid" $spread >"$work/regions.log" 2>&1 ||
        fail "an engine${spread:+ with memory over two allocations} that drops regions at bad moments ended in $?"
done
tries=0
while held=$(find "/proc/$prefill_pid/fd" -lname '/memfd:many*' -o -lname '/memfd:used*' | wc -l) && [ "$held" -gt 0 ]; do
    tries=$((tries + 1))
    [ $tries -lt $((300 * patience)) ] || fail "the agent holds $held descriptors of regions that are gone"
    sleep 0.1
done
