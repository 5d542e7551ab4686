#!/bin/sh
# Goal: agents move a request between engines with different layouts, page sizes, ranks and KV groups, byte for
# byte, and report the ranks and the sizes of the pieces. Method: all ranks of a row of a table are one
# program (tests/support/mapping.c), which looks at all of the targets' memory.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
prefill_options="--fragments direct"
start_all

mapping() {
    "$KVRAIL_BIN_DIR/../tests/mapping" "$work/source.sock" "$work/target.sock" "$source_agent" "$@" \
        >"$work/mapping.log" 2>&1 || fail "mapping ended in $?"
    cat "$work/mapping.log"
}

# why REQUEST WORD…: the record of the request says so, once both agents have reported it.
why() {
    request=$1
    shift
    for word in "$@"; do
        wait_for 30 why_has "$word" || fail "kvrail why $request: '$word' is not in: $(cat "$work/why")"
    done
}

why_has() {
    tool why --scheduler "$scheduler" "$request" >"$work/why" 2>&1 || [ $? = 1 ] || return 1
    file_has "$work/why" "$1"
}

mapping
# Row 7 is NHD to HND: a head of a token is 64 B.
why mapping-7 'as little as 64 bytes in a row at both ends' 'pieces' '(fragments direct)'
why mapping-34 'to tensor rank 0 of stage 0' # three stages to one: the transfer that is newest
tool why --scheduler "$scheduler" --json - mapping-7 >"$work/why" || fail "no JSON of mapping-7"
grep -q '"choice": "direct"' "$work/why" || fail "no fragments in $(cat "$work/why")"

# Every other source rank at another agent, as on another host.
# shellcheck disable=SC2046
start second "$bin/prefill-agent" --name prefill-1 $(credentials prefill prefill-1) \
    --engine-socket "$work/second.sock" \
    --listen 127.0.0.1:0 --port-file "$work/second.port" --provider "$provider" $(default_rails) \
    --scheduler "$scheduler" --state-dir "$work/second"
await second "$work/second.port"
await second "$work/second.sock"
mapping "$work/second.sock" "127.0.0.1:$(cat "$work/second.port")"

kill "$prefill_pid"
wait "$prefill_pid" || fail "the prefill-agent ended in $?"
prefill_options="--fragments refuse --fragment-bytes-min 128"
start_prefill
mapping fragments-refused

# Pages of host memory that share only fragments, copied through staging memory: whichever of both ends
# has them together is left as it is.
kill "$prefill_pid"
wait "$prefill_pid" || fail "the prefill-agent ended in $?"
prefill_options="--fragments staged --digest full --staging-memory 4M"
start_prefill
mapping fragments
grep -q '(host) is staged by 4 MiB' "$work/prefill.log" || fail "nothing was gathered"
grep -q '(host) is staged by 256 MiB' "$work/decode.log" || fail "nothing was scattered"
why mapping-fragments-7 '64 bytes in a row at both ends: 19968 pieces in' '(fragments staged)' \
    'direct: ' 'staged: ' 'path staged'
why mapping-fragments-26 '64 bytes in a row at both ends' '(fragments staged)' # TP 8 to 4
why mapping-fragments-27 '64 bytes in a row at both ends' '(fragments staged)' # TP 4 to 8
tool why --scheduler "$scheduler" --json - mapping-fragments-27 >"$work/why" ||
    fail "no JSON of mapping-fragments-27"
grep -q '"staged": {' "$work/why" || fail "not what was expected of staging in $(cat "$work/why")"
kill "$prefill_pid"
wait "$prefill_pid" || fail "the prefill-agent ended in $?"
prefill_options="--fragments refuse --fragment-bytes-min 128"
start_prefill

# Fields that must be equal and are not: known when the agents meet already, or by the first WANT. Said
# by the events and why of both engines (the program looks), by both logs, and by the record.
fields='refused-model=model: the source has "mapping", the target has "another"
refused-dtype=dtype: the source has "bfloat16", the target has "float8_e4m3"
refused-layers=num layers: the source has 6, the target has 7
refused-heads=num kv heads: the source has 8, the target has 16
refused-dim=head dim: the source has 32, the target has 64'

# all_said WORD: the refusal of each field is in both logs, after WORD, and in the record.
all_said() {
    printf '%s\n' "$fields" | while IFS='=' read -r request sentence; do
        for log in decode prefill; do
            grep -F -- "$1" "$work/$log.log" | grep -qF -- "$sentence" ||
                fail "the $log-agent's log does not say '$1 … $sentence'"
        done
        why "$request" "because the two engines' caches do not match" "$sentence"
    done
}
kill "$decode_pid"
wait "$decode_pid" || fail "the decode-agent ended in $?"
start_decode
mapping strangers-refused
all_said '(incompatible): '
mapping fragments-refused # no field differs: the agents meet
mapping fields-refused
all_said 'request "refused-'

# Where both sides' pages are copied anyway, one write carries what would be hundreds: nothing is refused.
kill "$prefill_pid" "$decode_pid"
wait "$prefill_pid" "$decode_pid" || fail "an agent did not end well"
prefill_options="$prefill_options --device emulated --digest full"
decode_options="--device emulated"
start_prefill
start_decode
mapping staged
why mapping-staged-7 '64 bytes in a row at both ends: 19968 pieces in 48 writes (fragments staged)'
tool why --scheduler "$scheduler" --json - mapping-staged-7 >"$work/why" ||
    fail "no JSON of mapping-staged-7"
grep -q '"choice": "staged"' "$work/why" || fail "no fragments in $(cat "$work/why")"
echo "e2e.mapping: passed"
