#!/bin/sh
# Goal: processes of another user attach only where the agents' options name that user or its group, and no
# engine takes more than its quota. Method: a replay of another user through agents of root; needs root.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
[ "$(id -u)" = 0 ] && command -v setpriv >/dev/null || {
    echo "needs root and setpriv"
    exit 77
}
user=61918 group=61919
need kvrail kvrail-scheduler prefill-agent decode-agent
chmod 0777 "$work" # the replay writes its figures there

as_other() { # REQUESTS
    rm -f "$work/figures.json"
    setpriv --reuid=$user --regid=$user --groups=$group "$bin/kvrail" replay \
        --source-socket "$work/source.sock" --target-socket "$work/target.sock" \
        --source-agent "$source_agent" --json "$work/figures.json" --requests "$1" --seed 1 \
        --pool-bytes 8M --kv-bytes-per-token 512 --layers 4 >"$work/other.log" 2>&1
}

rises() { # NAME: a counter of an agent
    metrics |
        awk -v name="kvrail_$1_total" 'index($1, name) == 1 { sum += $2 } END { exit sum == 0 }'
}

stop_agents() {
    kill -TERM $prefill_pid $decode_pid
    wait $prefill_pid $decode_pid || fail "an agent ended with status $? on SIGTERM"
    source_agent=
}

start_scheduler
start_prefill
start_decode
chmod 0666 "$work/source.sock" "$work/target.sock" # the file alone lets no process in
if as_other 5; then fail "user $user attached to agents that do not name it"; fi
grep -q "user $user, group $user may not attach" "$work/other.log" || fail "the refusal names no user"
# The first refusal ends the replay: its other engine may not have asked by then.
cat "$work/prefill.log" "$work/decode.log" | grep -q "an engine was turned away: process .* of user $user" ||
    fail "no log names the process that was refused"
stop_agents

prefill_options="--engine-user $user"
decode_options="--engine-group $group"
start_prefill
start_decode
[ "$(stat -c %a "$work/source.sock")" = 666 ] || fail "the socket's mode for --engine-user"
[ "$(stat -c %a:%g "$work/target.sock")" = 660:$group ] || fail "the socket's mode for --engine-group"
as_other 20 || fail "user $user may attach and cannot"
expect verified 20
grep -q "attached (process [0-9]*, user $user, group $user)" "$work/prefill.log" ||
    fail "the log does not say which process attached"
stop_agents

prefill_options="--engine-publishes 1"
decode_options=
start_prefill
start_decode
replay --requests 20 --concurrency 10 --seed 2 && fail "twenty requests went through a quota of one"
in_log 'full ' || fail "the replay does not say that the quota is full"
wait_for 20 rises quota_requests_refused || fail "no metric counts what a quota refuses"
stop_agents

prefill_options="--engine-memory 1M"
start_prefill
start_decode
replay --requests 5 --seed 3 && fail "a region went through a quota of a megabyte"
grep -rq -- '--engine-memory of this agent is 1048576' "$work" || fail "no sentence names the quota of memory"
wait_for 20 rises quota_memory_refused || fail "no metric counts what a quota of memory refuses"
echo "e2e.engine_access: passed"
