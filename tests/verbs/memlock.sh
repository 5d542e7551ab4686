#!/bin/sh
# Goal: memory that cannot be pinned is refused in a sentence that names the limit, the size and the remedy.
# This holds for an engine's region, for the buffers that libfabric pins for itself at the start of an agent,
# and for the next epoch of a rail. The same agent takes memory that fits. Method: agents that lack the
# capability that lifts the limit, with limits that stop each of the three.
set -eu
. "$KVRAIL_ROOT_DIR/tests/verbs/agents.sh"
mkdir -p "$work/bin"
for program in prefill-agent decode-agent kvrail-scheduler; do
    printf '#!/bin/sh\nexec setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "%s" "$@"\n' \
        "$bin/$program" >"$work/bin/$program"
    chmod 755 "$work/bin/$program"
done
ln -s "$bin/kvrail" "$work/bin/kvrail"
bin=$work/bin
remedy='raise it (ulimit -l unlimited, LimitMEMLOCK=infinity)'

# At start: 96 KiB are fewer than any endpoint's own buffers, and may not hold the page for warm-ups.
status=0
(ulimit -l 96 && exec timeout $((20 * patience)) "$bin/decode-agent" --name small --insecure --provider verbs \
    --rail "$(rail_address 5)" --engine-socket "$work/small.sock" --state-dir "$work/small") >"$work/small.log" 2>&1 || status=$?
[ "$status" != 0 ] && [ "$status" != 124 ] || fail "an agent started that may lock 96 KiB"
grep -q "cannot start: .* bytes: the limit of locked memory is 98304 bytes, .*$remedy" "$work/small.log" ||
    fail "$(tail -n 3 "$work/small.log")"

# A region. 48 MiB held no byte and no word, when libfabric's own buffers took 32 MiB of each rail.
ulimit -l $((48 << 10))
agents_with "1 2" "5 6"
grep -q 'RLIMIT_MEMLOCK allows 49152 KiB and provider .* pins every region' "$work/decode.log" ||
    fail "no warning at the start: $(head -n 5 "$work/decode.log")"
write_trace 60

# refused BYTES: a pool of so many, by either agent.
refused() {
    rm -f "$work/replay.log"
    replay_status=0
    replay_trace 5 --pool-bytes "$1" || replay_status=$?
    [ "$replay_status" != 0 ] || fail "$1 bytes were registered on two rails where 48 MiB may be locked"
    in_log "cannot register $1 bytes: the limit of locked memory is 50331648 bytes"
    in_log 'LimitMEMLOCK=infinity'
    grep -q 'region refused: .* the limit of locked memory is 50331648 bytes' \
        "$work/prefill.log" "$work/decode.log" || fail "no agent's log says why"
}

refused $((64 << 20)) # more than the limit
refused $((32 << 20)) # more than the limit, counted on both rails
refused $((23 << 20)) # two rails' own buffers, of 1.5 MiB each, would not fit beside it
replay_trace 5 --pool-bytes 8M || fail "with a pool that fits, the replay ended in $?"
expect_good 5

# Later: the agent's limit is lowered while it runs, and a rail's next epoch has nothing left to pin.
rm -f "$work/replay.log"
replay_in_background --trace "$trace" --format azure --requests 60 --pool-bytes 8M --progress
await_progress
prlimit --pid "$decode_pid" --memlock=98304:50331648
rail_cut 6
await_words() {
    wait_for 20 grep -q "$1" "$work/decode.log" || fail "the decode-agent never logs: $1"
}
await_words "rail 1, $(rail_address 6), is down: .*the limit of locked memory is 98304 bytes, .*$remedy"
rail_heal 6
prlimit --pid "$decode_pid" --memlock=50331648:50331648
await_words "rail 1, $(rail_address 6), is up again"
finish_replay
[ "$replay_status" = 0 ] || fail "with a rail that was refused its buffers, the replay ended in $replay_status"
expect_good 60
