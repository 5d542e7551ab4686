#!/bin/sh
# Goal: an operator can leave the programs alone and still steer them. Sockets lie in a run folder of their
# own. SIGHUP reopens logs and takes changed options from the file. SIGTERM refuses new work, waits, and
# names the requests that it gave up. Method: an engine with a publish that no target fetches, and a replay.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent ../examples/example_prefill ../examples/example_decode
publish="$bin/../examples/example_prefill"
fetch="$bin/../examples/example_decode"

# await_line FILE TEXT: until the file has it.
await_line() {
    wait_for 30 file_has "$1" "$2" || fail "$(basename "$1") does not say '$2': $(cat "$1" 2>/dev/null)"
}

# live COUNT: until the agent has reported so many publishes and fetches to the scheduler.
live() {
    wait_for 30 has_live "$1" || fail "the agent has not $1 transfers: $(cat "$work/status.json")"
}

has_live() {
    tool status --scheduler "$scheduler" --json >"$work/status.json" &&
        grep -q "\"transfers_live\": $1\\b" "$work/status.json"
}

mode() {
    [ "$(stat -c %a "$2")" = "$1" ] || fail "$2 has mode $(stat -c %a "$2"), not $1"
}

# ended PID: by itself, with status 0.
ended() {
    status=0
    wait "$1" || status=$?
    [ $status = 0 ] || fail "process $1 ended with $status"
}

agent_start() {
    cat >"$work/prefill.ini" <<END
heartbeat = 1s
drain-timeout = 20s
[general]
log-level = $1
END
    rm -f "$work/port"
    # shellcheck disable=SC2046 # options
    start prefill env -u RUNTIME_DIRECTORY XDG_RUNTIME_DIR="$work" "$bin/prefill-agent" --name p0 \
        --listen 127.0.0.1:0 --port-file "$work/port" --config "$work/prefill.ini" \
        --log-file "$work/p0.log" --scheduler "$scheduler" $(credentials prefill p0)
    prefill_pid=$started
    await prefill "$work/port"
}

# ---- programs say how they end
for program in prefill-agent decode-agent kvrail-scheduler "kvrail replay" "kvrail status" \
    "kvrail why" "kvrail sim" "kvrail topo" "kvrail doctor" "kvrail trace synth" "kvrail bench push"; do
    # shellcheck disable=SC2086 # words of a command
    "$bin/"$program --help >"$work/help" || fail "$program --help ended in $?"
    grep -q '^Exit status:' "$work/help" || fail "$program --help has no exit codes"
    grep -q '^  2  ' "$work/help" || fail "$program --help does not say what 2 means"
done

# ---- the run folder, the log file
start_scheduler
agent_start info
mode 700 "$work/kvrail"
mode 600 "$work/kvrail/p0.sock"
await_line "$work/p0.log" "$work/kvrail/p0.sock"
grep -qE '^<6>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z ' "$work/p0.log" ||
    fail "times are not RFC 3339 in UTC: $(cat "$work/p0.log")"
[ ! -s "$work/prefill.log" ] || fail "stderr should be silent: $(cat "$work/prefill.log")"

# ---- SIGHUP
mv "$work/p0.log" "$work/p0.log.1"
sed -i 's/heartbeat = 1s/heartbeat = 2s/; s/info/debug/; s/20s/6s/' "$work/prefill.ini"
kill -HUP "$prefill_pid"
await_line "$work/p0.log" "--log-level is 'debug' from now on"
await_line "$work/p0.log" "--drain-timeout is '6s' from now on; it was '20s'"
await_line "$work/p0.log" "--heartbeat is '2s' in its source and stays '1s' here: it takes a restart"
echo 'heartbeat = soon' >>"$work/prefill.ini"
kill -HUP "$prefill_pid"
await_line "$work/p0.log" "all options stay as they were"

start other "$bin/kvrail-scheduler" --insecure --listen 127.0.0.1:0 --port-file "$work/other.port" \
    --state-dir "$work/other" --log-file "$work/s.log"
await other "$work/other.port"
status=0
timeout 20 "$bin/kvrail-scheduler" --insecure --listen 127.0.0.1:0 --state-dir "$work/other" \
    >"$work/second" 2>&1 || status=$?
[ "$status" = 1 ] && grep -q "state-dir .* is in use by process $started:" "$work/second" ||
    fail "a second scheduler on one folder ended with $status: $(cat "$work/second")"
mv "$work/s.log" "$work/s.log.1"
kill -HUP "$started"
await_line "$work/s.log" "no option has changed"
kill "$started"
ended "$started"
grep -q 'SIGTERM' "$work/s.log" || fail "the scheduler ended in silence"

# ---- SIGTERM, with a publish that no target fetches
start lonely "$publish" "$work/kvrail/p0.sock" lonely-request
lonely_pid=$started
live 1
kill "$prefill_pid"
await_line "$work/p0.log" "taking no new work, 1 requests to end"
"$publish" "$work/kvrail/p0.sock" too-late >"$work/late" 2>&1 && fail "a draining agent took new work"
grep -q 'draining\|shutting down' "$work/late" || fail "new work was not refused as draining: $(cat "$work/late")"
ended "$prefill_pid"
grep -q 'giving up 1 requests .*: lonely-request' "$work/p0.log" || fail "the given-up request has no name: $(cat "$work/p0.log")"
status=0
wait "$lonely_pid" || status=$?
grep -q 'source_free: draining' "$work/lonely.log" || fail "its pages came back with $(cat "$work/lonely.log")"
[ ! -e "$work/kvrail/p0.sock" ] || fail "the socket is left behind"

# ---- SIGTERM, with a publish that is fetched only now, and one that a target has waited for in vain
rm "$work/p0.log"
agent_start info
source_agent=127.0.0.1:$(cat "$work/port")
decode_options="--heartbeat 500ms"
start_decode
start taken "$publish" "$work/kvrail/p0.sock" taken-request
taken_pid=$started
await_line "$work/taken.log" generation
generation=$(sed -n 's/^generation //p' "$work/taken.log")
start parked "$fetch" "$work/target.sock" never-published "$source_agent" "$generation"
parked_pid=$started
live 2
kill "$prefill_pid"
await_line "$work/p0.log" "taking no new work, 2 requests to end"
wait "$parked_pid" && fail "a request that will never be published was fetched"
grep -q draining "$work/parked.log" || fail "the event of its target was: $(cat "$work/parked.log")"
"$fetch" "$work/target.sock" unknown "$source_agent" "$generation" >"$work/unknown" 2>&1 &&
    fail "a draining agent waits for a publish that it would refuse"
grep -q draining "$work/unknown" || fail "the event of the target was: $(cat "$work/unknown")"
"$fetch" "$work/target.sock" taken-request "$source_agent" "$generation" >"$work/fetched" 2>&1 ||
    fail "a draining agent refused what it had taken: $(cat "$work/fetched")"
ended "$taken_pid"
ended "$prefill_pid"
if grep -q 'giving up' "$work/p0.log"; then fail "it gave up what could end: $(cat "$work/p0.log")"; fi
kill "$decode_pid"
ended "$decode_pid"
decode_options=
source_agent=

# ---- --lifeline: the last engine that holds the pipe open is killed
mkfifo "$work/lifeline"
status=0
"$bin/prefill-agent" --name p0 --run-dir "$work" --listen 127.0.0.1:0 --lifeline "$work/lifeline" \
    --insecure >"$work/unheld" 2>&1 || status=$?
[ $status = 1 ] && grep -q 'no process holds --lifeline' "$work/unheld" ||
    fail "an agent with a pipe without a holder ended with $status: $(cat "$work/unheld")"
status=0
"$bin/prefill-agent" --name p0 --run-dir "$work" --listen 127.0.0.1:0 --lifeline "$work/unheld" \
    --insecure >"$work/no_pipe" 2>&1 || status=$?
[ $status = 2 ] && grep -q 'is no named pipe' "$work/no_pipe" ||
    fail "an agent with a file as pipe ended with $status: $(cat "$work/no_pipe")"
sleep 600 1<>"$work/lifeline" &
first_holder=$!
sleep 600 1<>"$work/lifeline" &
last_holder=$!
started_pids="$started_pids $first_holder $last_holder"
rm -f "$work/p0.log" "$work/port"
start prefill "$bin/prefill-agent" --name p0 --run-dir "$work/kvrail" --listen 127.0.0.1:0 \
    --port-file "$work/port" --log-file "$work/p0.log" --lifeline "$work/lifeline" --insecure
prefill_pid=$started
await prefill "$work/port"
kill -9 "$first_holder"
wait "$first_holder" || true
start kept "$publish" "$work/kvrail/p0.sock" kept-request
await_line "$work/kept.log" generation
kept_pid=$started
kill -9 "$last_holder"
await_line "$work/p0.log" "no engine holds --lifeline: taking no new work"
kill "$prefill_pid" # the first signal: what is under way may still end
await_line "$work/p0.log" "the agent ends already"
kill "$kept_pid"
ended "$prefill_pid"

# ---- SIGTERM while a replay runs: what is under way ends, and nothing is given up
start_prefill
start_decode
replay_in_background --requests 300 --progress
await_progress
kill "$decode_pid"
ended "$decode_pid"
grep -q 'taking no new work' "$work/decode.log" || fail "it did not drain"
if grep -q 'giving up' "$work/decode.log"; then fail "it gave up transfers that could end"; fi
kill "$replay_pid" 2>/dev/null || true
kill "$prefill_pid"
ended "$prefill_pid"
echo "e2e.signals: passed"
