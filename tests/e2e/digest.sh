#!/bin/sh
# Goal: bytes that are not the source's are never DONE where an agent asks for digests, and the
# sentence names the write. Method: one request layer by layer (tests/support/pair.c); an engine alters
# a byte of the first layer while the others are still to come.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent ../tests/pair
start_scheduler

# pair PREFILL-MODE DECODE-MODE ENGINE [digest]: the agents' --digest, the engine that alters a byte, and
# whether the fetch asks for a digest.
pair() {
    prefill_options="--digest $1" decode_options="--digest $2"
    start_prefill
    start_decode
    timeout $((60 * patience)) "$bin/../tests/pair" "$work/source.sock" "$work/target.sock" "$source_agent" "$3" ${4:+"$4"} \
        >"$work/pair.log" 2>&1 || fail "pair $* ended in $?"
    kill "$prefill_pid" "$decode_pid"
    wait "$prefill_pid" "$decode_pid" || fail "an agent did not end well"
    source_agent=
}

# ended WHAT: a terminal event begins with that.
ended() {
    grep -q "^$1" "$work/pair.log" || fail "no event '$1' in: $(cat "$work/pair.log")"
}

pair full full none
ended 'target done ok'
ended 'source source_free ok'
# Either agent's wish is enough.
for modes in 'full off' 'off full'; do
    # shellcheck disable=SC2086 # two words
    pair $modes target
    ended 'target failed digest: chunk [0-9]* of [0-9]* (layer 0)'
    ended 'source source_free digest'
done
# So is that of the fetch.
pair off off target digest
ended 'target failed digest: chunk [0-9]* of [0-9]* (layer 0)'
pair off off none digest
ended 'target done ok'
pair off off target # nobody asked
ended 'target done ok'
