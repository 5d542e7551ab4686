#!/bin/sh
# Goal: a target that copies by itself announces nothing that it copied from pages which their engine has
# back (rule 11). Argument: cancel or kill. With cancel the target's agent is stopped while the source
# cancels, gets its pages and writes on them. With kill the source's agent is killed in mid transfer. Method:
# tests/support/revoked.c is both engines and looks at each layer when LAYER_IN comes. The target's beats are
# long, so that its events after the stop are not held back for its absence. The thread that wakes first is
# chance: without the rule one round in some fifteen goes wrong. KVRAIL_SCALE is a percentage of the rounds
# with cancel; one is left at least, and KVRAIL_CAMPAIGN=1 plays twice as many.
set -eu
how=${1:?cancel or kill}
provider=${provider:-local}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
prefill_options="--heartbeat 200ms"
[ "$how" = kill ] || decode_options="--heartbeat 10s"
start_all

rounds=5
[ "$how" != cancel ] || rounds=$((10 * ${KVRAIL_SCALE:-100} / 100))
[ -z "${KVRAIL_CAMPAIGN:-}" ] || rounds=$((2 * rounds))
[ "$rounds" -gt 0 ] || rounds=1
round=0 idle=0
while [ "$round" -lt "$rounds" ]; do
    pid=$([ "$how" = cancel ] && echo "$decode_pid" || echo "$prefill_pid")
    status=0
    "$KVRAIL_BIN_DIR/../tests/revoked" "$work/source.sock" "$work/target.sock" "$source_agent" \
        "$how" "$pid" >"$work/revoked.log" 2>&1 || status=$?
    if [ "$status" = 75 ]; then # with beats so short; no agent was stopped or killed
        idle=$((idle + 1))
        [ $idle -le 5 ] || fail "in $idle rounds nothing was on its way"
        continue
    fi
    round=$((round + 1))
    [ "$status" = 0 ] || fail "round $round ended in $status"
    cat "$work/revoked.log"
    kill -0 "$decode_pid" 2>/dev/null || fail "the decode-agent died in round $round"
    [ "$how" = cancel ] || start_prefill
done
echo "revoked: $rounds passed"
