#!/bin/sh
# Goal: REGION_GONE comes once, and only when the agent can no longer touch the memory. A region is dropped
# while it is registered, twice, and while the agent's tables are full. The same holds for a device's region
# over two allocations, and no descriptor stays. Method: one engine (tests/support/regions.c) reads the
# agent's maps, once with memory of the host, once with an emulated device's.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent ../tests/regions
start_scheduler
prefill_options="--table-memory 96M --device emulated"
start_prefill
for spread in '' spread; do
    timeout $((60 * patience)) "$bin/../tests/regions" "$work/source.sock" "$prefill_pid" $spread >"$work/regions.log" 2>&1 ||
        fail "an engine${spread:+ with memory over two allocations} that drops regions at bad moments ended in $?"
done
# An engine's regions leave while helpers register those of others.
for i in 1 2 3 4; do
    timeout $((60 * patience)) "$bin/../tests/regions" "$work/source.sock" "$prefill_pid" beside >"$work/regions$i.log" 2>&1 &
    beside="${beside:-} $!"
done
for pid in $beside; do
    wait "$pid" || fail "an engine beside others that drops regions ended in $?"
done
holds_nothing() {
    held=$(find "/proc/$prefill_pid/fd" -lname '/memfd:many*' -o -lname '/memfd:used*' | wc -l)
    [ "$held" -eq 0 ]
}
wait_for 30 holds_nothing || fail "the agent holds $held descriptors of regions that are gone"
kill -TERM "$prefill_pid"
wait "$prefill_pid" || fail "the agent ended with $?"
