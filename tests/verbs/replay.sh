#!/bin/sh
# Goal: two agents and a scheduler move 20 requests of at most 2 MiB over the verbs provider, every
# byte is right and every rail took part. Arguments: how many rails the source has, and the target.
set -eu
. "$KVRAIL_ROOT_DIR/tests/verbs/agents.sh"
agents_with "$1" "$2"
write_trace 20 >"$work/trace.csv"
replay --trace "$work/trace.csv" --format azure --requests 20 --scheduler "$scheduler" ||
    fail "the replay ended in $?"
expect transfers 20
expect verified 20
expect failed 0
expect bytes_wrong 0
expect pages_written_late 0
cat "$work/figures.json"
curl -s "http://$scheduler/metrics" | grep rail
curl -s "http://$scheduler/api/v1/agents"
