#!/bin/sh
# Goal: `kvrail why` shows an operator the waits of a transfer and a remedy, for one that is done, one that
# waits and one that failed. Method: the example engines make one of each.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need ../examples/example_prefill ../examples/example_decode
publish="$bin/../examples/example_prefill"
fetch="$bin/../examples/example_decode"
decode_options="--deadline 6s"
mkdir -p "$work/prefill"
cat >"$work/prefill/calibration-$provider.json" <<'END'
{"provider": "tcp", "libfabric": "none", "imm_iov": 4, "imm_rma_iov": 4, "pieces": 2, "chunk_bytes_max": 65536}
END
# The target has no rail in the plane blue.
prefill_rails="--rail 127.0.0.1@red --rail 127.0.0.2@blue"
decode_rails="--rail 127.0.0.1@red"
start_all

# why WORD… -- ARGUMENT…: says every word, and ends in $outcome, once the agents have reported it.
outcome=0
why() {
    words=
    while [ "$1" != -- ]; do
        words="$words$1
"
        shift
    done
    shift
    wait_for 30 said "$words" "$@" || fail "kvrail why $*: '$missing' is not in: $(cat "$work/why")"
}

said() {
    printf %s "$1" >"$work/words"
    shift
    status=0
    tool why --scheduler "$scheduler" "$@" >"$work/why" 2>&1 || status=$?
    [ $status = "$outcome" ] || { missing="status $outcome, but $status"; return 1; }
    while IFS= read -r missing; do
        grep -qF -- "$missing" "$work/why" || return 1
    done <"$work/words"
}

# published FILE: until the example has said its generation, which is left in $generation.
published() {
    wait_for 30 grep -qs '^generation' "$1" || fail "the source did not publish: $(cat "$1")"
    generation=$(sed -n 's/^generation //p' "$1")
}

# ---- one that waits for a target, and is done later
start source "$publish" "$work/source.sock" why-done
published "$work/source.log"
outcome=3
why 'It is not done' 'no target has asked for them' 'What to do: ' -- why-done
"$fetch" "$work/target.sock" why-done "$source_agent" "$generation" >"$work/fetched" 2>&1 ||
    fail "nothing was fetched: $(cat "$work/fetched")"
outcome=0
why 'request why-done, attempt 0' 'from prefill-0 to decode-0: 64 tokens' 'first_ready' 'last_ready' 'first_post' 'last_land' \
    'a write has at most 2 pieces at the source, 2 at the target, 65536 bytes: calibrated' \
    'path host: source host, target host' 'Waits (each agent by its own clock)' 'source prefill-0 ended with ok' 'target decode-0 ended with ok' 'It is done' \
    -- why-done
id=$(sed -n '1s/.*transfer //p' "$work/why")
why "transfer $id" 'It is done' -- "$id"
why '"events": [' '"request": "why-done"' -- --json - why-d

# ---- one that no source published
start other "$publish" "$work/source.sock" why-other
other_pid=$started
published "$work/other.log"
"$fetch" "$work/target.sock" why-nobody "$source_agent" "$generation" >"$work/fetched" 2>&1 &&
    fail "a request that no source published was fetched"
outcome=1
# The deadline of the fetch or of the WANT at the source, whichever is seen first: expired, no_source.
why 'target decode-0 ended with ' 'no source has published the request' 'What to do: ' -- why-nobody
why 'Pairs of rails that do not carry writes as they should, now:' \
    "of decode-0, used where no near pair works: its plane is blue, the peer's red" -- why-nobody
why 'Other transfers of requests with that beginning, newest first:' 'why-done' 'why-nobody' -- why-

# ---- one that failed first and was done later: the failure is explained, and the other listed
kill "$other_pid" 2>/dev/null || true
wait "$other_pid" || true
start again "$publish" "$work/source.sock" why-nobody
published "$work/again.log"
"$fetch" "$work/target.sock" why-nobody "$source_agent" "$generation" >"$work/fetched" 2>&1 ||
    fail "nothing was fetched the second time: $(cat "$work/fetched")"
why 'no source has published the request' 'Other transfers of requests with that beginning' ' done ' -- why-nobody

# ---- the rails alone
tool topo --peer decode-0 --scheduler "$scheduler" >"$work/topo" || fail "topo --peer: $(cat "$work/topo")"
grep -q '^Rails of prefill-0 (rows) to those of decode-0 (columns), ' "$work/topo" || fail "$(cat "$work/topo")"
grep -q '^  0 .* warm ' "$work/topo" && grep -q '^  1 .* spare' "$work/topo" || fail "$(cat "$work/topo")"
grep -q "its plane is blue, the peer's red; 0 B came through" "$work/topo" || fail "$(cat "$work/topo")"
tool topo --peer prefill-0 --json --scheduler "$scheduler" >"$work/topo"
grep -q '"state": "spare"' "$work/topo" || fail "$(cat "$work/topo")"
"$bin/kvrail" topo --agent "$work/source.sock" --peer decode-0 >"$work/topo" || fail "topo --agent: $(cat "$work/topo")"
grep -q '^Rails of prefill-0 (rows) to those of decode-0 (columns), ' "$work/topo" || fail "$(cat "$work/topo")"
grep -q "of decode-0, used where no near pair works: its plane is blue, the peer's red" "$work/topo" ||
    fail "$(cat "$work/topo")"
status=0
"$bin/kvrail" topo --agent "$work/source.sock" --peer nobody 2>"$work/topo" || status=$?
[ $status = 1 ] && grep -q "the agent knows no peer 'nobody'; it knows decode-0" "$work/topo" ||
    fail "an unknown peer ended in $status: $(cat "$work/topo")"
status=0
"$bin/kvrail" topo --agent "$work/target.sock" 2>"$work/topo" || status=$?
[ $status = 1 ] && grep -q 'decode-0 is a decode-agent' "$work/topo" ||
    fail "a decode-agent ended in $status: $(cat "$work/topo")"
status=0
"$bin/kvrail" topo --agent "$work/no.sock" 2>"$work/topo" || status=$?
[ $status = 75 ] || fail "no agent ended in $status: $(cat "$work/topo")"
status=0
tool topo --peer nobody --scheduler "$scheduler" 2>"$work/topo" || status=$?
[ $status = 1 ] && grep -q "knows no agent 'nobody'; it knows decode-0, prefill-0" "$work/topo" ||
    fail "an unknown agent ended in $status: $(cat "$work/topo")"

# ---- what cannot be answered
status=0
tool why --scheduler "$scheduler" nothing-like-it 2>"$work/why" || status=$?
[ $status = 4 ] || fail "an unknown request ended in $status"
grep -q "knows no transfer 'nothing-like-it'" "$work/why" || fail "$(cat "$work/why")"
status=0
tool why --scheduler 127.0.0.1:1 x 2>"$work/why" || status=$?
[ $status = 75 ] || fail "no scheduler ended in $status"
status=0
tool why --scheduler "$scheduler" "$(printf '%0200d' 1)" 2>"$work/why" || status=$?
[ $status = 4 ] || fail "what no request can be called ended in $status: $(cat "$work/why")"
grep -q 'is not the beginning of a request' "$work/why" || fail "$(cat "$work/why")"
status=0
tool why 2>"$work/why" || status=$?
[ $status = 2 ] || fail "no argument ended in $status"

# ---- and what is odd stands in the overview
tool status --scheduler "$scheduler" >"$work/status"
grep -q 'why-nobody is [ef]' "$work/status" || fail "status finds nothing odd: $(cat "$work/status")"
echo "e2e.why: passed"
