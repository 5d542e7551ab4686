#!/bin/sh
# Goal: an operator abandons a request that no target will fetch, and its source gets the pages back long
# before the lease ends. A request with a target is left alone, and cancelled as a transfer. The order survives a
# restart of the scheduler, and an agent logs when the scheduler is away. An agent that is drained takes no new
# requests until it is resumed. Method: the example engines publish; kvrail and curl give the orders.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need ../examples/example_prefill ../tests/pair
command -v curl >/dev/null || { echo "there is no curl" >&2; exit 77; }
publish="$bin/../examples/example_prefill"
prefill_options="--lease 600s"
start_all

# ask STATUS TEXT VERB ARGUMENT…: the command ends so, and says that.
ask() {
    want=$1 text=$2
    shift 2
    verb=$1
    shift
    got=0
    tool "$verb" --scheduler "$scheduler" "$@" >"$work/said" 2>&1 || got=$?
    [ "$got" = "$want" ] || fail "kvrail $verb $*: status $got, not $want: $(cat "$work/said")"
    grep -qF -- "$text" "$work/said" || fail "kvrail $verb $*: no '$text' in: $(cat "$work/said")"
}

# state REQUEST WORD [SECONDS]: until the scheduler says that of the newest transfer of the request.
state() {
    wait_for "${3:-20}" has_state "$1" "$2" || fail "$1 is not $2: $(cat "$work/body")"
}

has_state() {
    ask_scheduler "/api/v1/transfers?limit=1&request=$1" >"$work/body" && file_has "$work/body" "$2"
}

# logged NAME TEXT: until the log of that program has it.
logged() {
    wait_for 30 file_has "$work/$1.log" "$2" || fail "the log of $1 does not say '$2'"
}

# gone PID: that engine has got its terminal event and ended.
gone() {
    wait_for 20 not is_running "$1" || fail "the source got no event that its pages are free"
}

# start_pair MODE LOG: one request between both agents, which goes on when descriptor 9 is closed.
start_pair() {
    rm -f "$work/go"
    mkfifo "$work/go"
    "$bin/../tests/pair" "$work/source.sock" "$work/target.sock" "$source_agent" "$1" \
        <"$work/go" >"$work/$2.log" 2>&1 &
    pair_pid=$!
    started_pids="$started_pids $pair_pid"
    exec 9>"$work/go"
    state pair '"state":"first_land"'
}

# ---- let go
start held "$publish" "$work/source.sock" held/one
held_pid=$started
state held/one '"state":"opened"'
tool status --scheduler "$scheduler" >"$work/said"
grep -q 'held/one, attempt 0: held for [0-9]* s without a target, at prefill-0' "$work/said" ||
    fail "status does not name what is held: $(cat "$work/said")"
asked_at=$(date +%s%N)
ask 0 '1 source(s) will abandon held/one' abandon held/one
gone "$held_pid"
echo "freed $((($(date +%s%N) - asked_at) / 1000000)) ms after the call"
grep -q 'source_free: cancelled' "$work/held.log" || fail "it ended so: $(cat "$work/held.log")"
state held/one '"state":"cancelled"'
tool status --scheduler "$scheduler" | grep -q 'held for' && fail "status still holds it"
grep -q 'the scheduler abandoned it' "$work/body" || fail "the reason is missing: $(cat "$work/body")"
ask 1 'ended already: it is cancelled' abandon held/one
ask 1 'no such request is known' abandon nobody
ask 2 'must have 1 to' abandon ''

# ---- the lease is what the operator says: here it ends sooner
start renewed "$publish" "$work/source.sock" renewed
renewed_pid=$started
state renewed '"state":"opened"'
ask 0 '1 source(s) will renew renewed' renew --attempt 0 --lease 1s renewed
gone "$renewed_pid"
state renewed '"state":"expired"'

# ---- what was asked is not forgotten by a scheduler that is killed before the agent has heard it
start kept "$publish" "$work/source.sock" kept
kept_pid=$started
state kept '"state":"opened"'
kill -STOP "$prefill_pid"
ask 0 '1 source(s) will abandon kept' abandon kept
kill -9 "$scheduler_pid"
wait "$scheduler_pid" 2>/dev/null || true
logged decode "the scheduler at $scheduler takes no reports: "
start_scheduler
logged decode "the scheduler at $scheduler takes reports again"
kill -CONT "$prefill_pid"
gone "$kept_pid"
state kept '"state":"cancelled"'

# ---- a target that has come is left alone
start_pair wait pair
source_reported() { tool why --scheduler "$scheduler" pair | grep -q first_post; }
wait_for 30 source_reported || fail "the source does not report: $(cat "$work/prefill.log")"
ask 1 'a target has come for this request (decode-0)' abandon pair
ask 1 'a target has come for this request (decode-0)' renew pair
exec 9>&-
wait "$pair_pid" || fail "the pair ended badly: $(cat "$work/pair.log")"
grep -q '^target done ok' "$work/pair.log" || fail "the pair ended so: $(cat "$work/pair.log")"

# ---- a transfer is cancelled: its target's engine hears of it, and its source's
state pair '"state":"done"'
start_pair hold cancelled
id=$(sed -n 's/.*"transfers":\[{"id":"\([0-9a-f]*\)".*/\1/p' "$work/body")
target_reported() { tool why --scheduler "$scheduler" pair | grep -q first_land; }
wait_for 30 target_reported || fail "the target does not report: $(cat "$work/decode.log")"
ask 0 "its agent will cancel $id" cancel "$id"
state pair '"state":"cancelled"'
grep -q 'cancelled by an operator' "$work/body" || fail "the reason is missing: $(cat "$work/body")"
exec 9>&-
wait "$pair_pid" || true
grep -q '^target cancelled cancelled: cancelled by an operator' "$work/cancelled.log" || fail "the pair ended so: $(cat "$work/cancelled.log")"
ask 1 'ended already: it is cancelled' cancel "$id"
ask 1 'no such transfer is known' cancel 0123456789abcdef
ask 1 'a transfer has 16 hexadecimal digits' cancel pair

# ---- an agent is drained, and resumed
ask 1 'no agent nobody is known' drain nobody
ask 0 'its agent will drain prefill-0' drain prefill-0
logged prefill 'the scheduler drains this agent: it takes no new requests'
"$publish" "$work/source.sock" refused >"$work/refused.log" 2>&1 || true
grep -q 'source_free: draining' "$work/refused.log" || fail "it is taken: $(cat "$work/refused.log")"
drained_shows() { tool status --scheduler "$scheduler" | grep -q 'prefill-0 was drained'; }
wait_for 20 drained_shows || fail "status does not say that prefill-0 was drained"
ask 0 'its agent will resume prefill-0' resume prefill-0
logged prefill 'the scheduler resumes this agent'
start again "$publish" "$work/source.sock" again
again_pid=$started
state again '"state":"opened"'
ask 0 '1 source(s) will abandon again' abandon again
gone "$again_pid"
echo "e2e.abandon: passed"
