#!/bin/sh
# Goal: an engine's region that cannot be pinned is refused in a sentence that names the limit, the
# size asked and the remedy; and a smaller one is taken by the same agent. Method: agents that may lock
# 96 MiB, and lack the capability that lifts the limit.
set -eu
. "$KVRAIL_ROOT_DIR/tests/verbs/agents.sh"
ulimit -l $((96 << 10))
mkdir -p "$work/bin"
for program in prefill-agent decode-agent kvrail-scheduler; do
    printf '#!/bin/sh\nexec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "%s" "$@"\n' \
        "$bin/$program" >"$work/bin/$program"
    chmod 755 "$work/bin/$program"
done
ln -s "$bin/kvrail" "$work/bin/kvrail"
bin=$work/bin
agents_with "1 2" "5 6"
write_trace 5

# refused BYTES: a pool of so many, by either agent.
refused() {
    rm -f "$work/replay.log"
    replay_status=0
    replay_trace 5 --pool-bytes "$1" || replay_status=$?
    [ "$replay_status" != 0 ] || fail "$1 bytes were registered on two rails where 96 MiB may be locked"
    in_log "cannot register $1 bytes: the limit of locked memory is 100663296 bytes"
    in_log 'LimitMEMLOCK=infinity'
    grep -q 'region refused: .* the limit of locked memory is 100663296 bytes' \
        "$work/prefill.log" "$work/decode.log" || fail "no agent's log says why"
}

refused $((128 << 20)) # more than the limit
refused $((64 << 20)) # more than the limit, counted on both rails
replay_trace 5 --pool-bytes 8M || fail "with a pool that fits, the replay ended in $?"
expect_good 5
