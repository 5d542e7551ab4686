#!/bin/sh
# Goal: REGION_GONE comes once, and when nothing of the agent can touch the memory any more: not when a
# region is dropped while it is registered, twice, or while the agent's tables are full. Method: one
# engine (tests/support/regions.c) that reads the agent's maps.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent ../tests/regions
start_scheduler
prefill_options="--table-memory 64M"
start_prefill
timeout 60 "$bin/../tests/regions" "$work/source.sock" "$prefill_pid" >"$work/regions.log" 2>&1 ||
    fail "an engine that drops regions at bad moments ended in $?"
