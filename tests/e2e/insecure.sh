#!/bin/sh
# Goal: a program with --insecure says so when it starts, in /metrics, in `kvrail status` and in what the dashboard
# reads. With certificates nothing of that is there. Both ways move pages, and neither goes with the other.
# Method: a scheduler and both agents with certificates, then with both, then with --insecure.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
command -v curl >/dev/null || { echo "there is no curl" >&2; exit 77; }

# insecure NUMBER: each program shows it so (0 or 1), once both agents have reported.
insecure() {
    metrics >"$work/metrics"
    for line in "kvrail_scheduler_insecure $1" "kvrail_agent_insecure{agent=\"prefill-0\"} $1" \
        "kvrail_agent_insecure{agent=\"decode-0\"} $1"; do
        grep -qxF "$line" "$work/metrics" || return 1
    done
}

# shown NUMBER true|false COUNT: in the log of each program; then in each answer, so many sentences.
shown() {
    for name in scheduler prefill decode; do
        [ "$(grep -c '^<4>.*--insecure: ' "$work/$name.log")" = "$1" ] || fail "the warnings of $name are not $1"
    done
    wait_for 30 insecure "$1" || fail "/metrics says: $(grep insecure "$work/metrics")"
    ask_scheduler /api/v1/summary | grep -q "\"insecure\":$2" || fail "/api/v1/summary does not say $2"
    [ "$(ask_scheduler /api/v1/agents | grep -o "\"insecure\":$2" | wc -l)" = 2 ] ||
        fail "/api/v1/agents does not say $2 of both"
    tool status --scheduler "$scheduler" >"$work/status" || fail "kvrail status ended in $?"
    [ "$(grep -c 'runs with --insecure' "$work/status")" = "$3" ] || fail "kvrail status: $(cat "$work/status")"
}

secure=yes
start_all
replay --requests 5 || fail "with certificates the replay ended in $?"
expect verified 5
shown 0 false 0
for pid in $decode_pid $prefill_pid $scheduler_pid; do
    kill "$pid"
    wait "$pid" || fail "SIGTERM ended a program with $?"
done

# Beside certificates it is refused: what was left behind in a file or the environment would weaken them.
for words in "scheduler scheduler kvrail-scheduler --state-dir $work/never" \
    "prefill prefill-0 prefill-agent --name prefill-0 --engine-socket $work/never.sock" \
    "decode decode-0 decode-agent --name decode-0 --engine-socket $work/never.sock"; do
    # shellcheck disable=SC2086 # words
    set -- $words
    role=$1 name=$2 program=$bin/$3
    shift 3
    status=0
    # shellcheck disable=SC2046 # options
    KVRAIL_INSECURE=yes timeout 20 "$program" "$@" $(credentials "$role" "$name") >"$work/refused" 2>&1 || status=$?
    [ "$status" = 2 ] || fail "$program with certificates and insecure ended in $status: $(cat "$work/refused")"
    grep -q -- '--insecure and --tls-certificate contradict each other' "$work/refused" || fail "$(cat "$work/refused")"
done
[ ! -e "$work/never" ] && [ ! -e "$work/never.sock" ] || fail "a program that is refused has begun to work"

secure=no scheduler='' source_agent=''
rm -rf "$work"/*.log "$work/scheduler"
start_all
replay --requests 5 || fail "with --insecure the replay ended in $?"
expect verified 5
shown 1 true 3
echo "e2e.insecure: passed"
