#!/bin/sh
# Goal: two agents and a scheduler move 20 requests of at most 2 MiB over the verbs provider, every
# byte is right and every rail took part. Arguments: the source's rails, the target's rails.
set -eu
. "$KVRAIL_ROOT_DIR/tests/verbs/agents.sh"
agents_with "$1" "$2"
write_trace 20
replay_trace 20 || fail "the replay ended in $?"
expect_good 20
for rail in $1 $2; do
    await_rail "$rail" writes 0
done
