#!/bin/sh
# Goal: an agent shows its own metrics and whether it works, also when the scheduler is dead; with the scheduler's
# names and labels, and under the same rights. Clients that do harm take nothing from others or from transfers. An
# agent says when its loop stands still, and when it ends. Method: curl, promtool, tls_knock, and a
# thread that is held, beside replays. An agent without --http has neither the port nor its threads.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
PATH=$KVRAIL_ROOT_DIR/build/tools:$PATH
secure=yes
need kvrail kvrail-scheduler prefill-agent decode-agent ../tests/tls_knock ../tests/hold_thread
command -v curl >/dev/null || { echo "there is no curl" >&2; exit 77; }
mkdir -p -m 0700 "$tls"
reader=$("$bin/kvrail" token reader read --append "$work/tokens") || fail "no token was made"

# shellcheck disable=SC2046
start other "$bin/kvrail-scheduler" $(credentials scheduler scheduler) --listen 127.0.0.1:0 \
    --port-file "$work/other.port" --state-dir "$work/other"
other_pid=$started
await other "$work/other.port"
other=127.0.0.1:$(cat "$work/other.port")

options="--scheduler $other --http 0 --http-token-file $work/tokens --http-host agent.example"
prefill_options="$options --http-port-file $work/prefill.http"
decode_options="$options --http-port-file $work/decode.http --http-open health"
start_all
await prefill "$work/prefill.http"
await decode "$work/decode.http"

# at ROLE PATH [CURL-ARGUMENT…]: an agent's answer, as a client with a certificate.
at() {
    role=$1 path=$2
    shift 2
    curl -sS -m $((20 * patience)) --cacert "$tls/ca.pem" --cert "$tls/tests.pem" --key "$tls/tests-key.pem" "$@" \
        "https://127.0.0.1:$(cat "$work/$role.http")$path"
}

# answers STATUS SENTENCE ROLE PATH [CURL-ARGUMENT…]: without a certificate.
answers() {
    status=$1 sentence=$2 role=$3 path=$4
    shift 4
    got=$(curl -sS -m $((20 * patience)) --cacert "$tls/ca.pem" -o "$work/body" -w '%{http_code}' "$@" \
        "https://127.0.0.1:$(cat "$work/$role.http")$path" 2>"$work/curl.log") || true
    [ "$got" = "$status" ] || fail "$role $path $*: $got, not $status: $(cat "$work/body" "$work/curl.log")"
    file_has "$work/body" "$sentence" || fail "$role $path $*: no '$sentence' in: $(cat "$work/body")"
}

# health ROLE STATUS TEXT: what /healthz answers.
health() {
    got=$(at "$1" /healthz -o "$work/health" -w '%{http_code}') && [ "$got" = "$2" ] && file_has "$work/health" "$3"
}
posted() { at prefill /metrics | awk '/^kvrail_rail_bytes_total/ { sum += $2 } END { printf "%.0f\n", sum }'; }

echo "== the scheduler's names and labels"
replay --requests 8 --concurrency 2 || fail "the replay failed"
expect verified 8
of_agent() { grep "agent=\"$1\"" | sed 's/ [^ ]*$//' | sort; }
same_series() {
    at "$1" /metrics | of_agent "$1-0" >"$work/own" && metrics | of_agent "$1-0" >"$work/scheduler's" &&
        cmp -s "$work/own" "$work/scheduler's"
}
same_bytes() {
    at "$1" /metrics | grep '^kvrail_rail_bytes_total' | sort >"$work/own" &&
        metrics | grep "^kvrail_rail_bytes_total{agent=\"$1-0\"" | sort >"$work/scheduler's" &&
        cmp -s "$work/own" "$work/scheduler's"
}
for role in prefill decode; do
    wait_for 20 same_series $role || fail "$role: $(diff "$work/own" "$work/scheduler's")"
    [ "$(wc -l <"$work/own")" -gt 80 ] || fail "$role has $(wc -l <"$work/own") series"
    wait_for 20 same_bytes $role || fail "$role: $(diff "$work/own" "$work/scheduler's")"
    # Facts are up to a second old, and the first ones are older than the first report.
    wait_for 10 health $role 200 '{"status":"ok","problems":[],"scheduler":"'"$scheduler"'"}' ||
        fail "$role is not well: $(cat "$work/health")"
    at $role /metrics -H 'Accept: application/openmetrics-text; version=1.0.0' >"$work/open"
    [ "$(tail -n 1 "$work/open")" = '# EOF' ] || fail "$role does not know OpenMetrics"
    at $role /metrics | grep -q '^process_cpu_seconds_total ' || fail "$role has no metrics of its process"
    ! command -v promtool >/dev/null || at $role /metrics | promtool check metrics >"$work/promtool.log" 2>&1 ||
        fail "promtool refuses the metrics of $role"
done

echo "== rights"
bearer="Authorization: Bearer $reader"
answers 200 kvrail_agent_up prefill /metrics -H "$bearer"
answers 200 '"status":"ok"' decode /healthz
answers 401 "a token is needed" prefill /healthz
answers 401 "a token is needed" decode /metrics
answers 401 "not known here" decode /metrics -H "Authorization: Bearer kvrail_$(printf '%064x' 1)"
answers 400 "a token in a URL" decode "/metrics?token=$reader"
answers 421 "not this program's" prefill /metrics -H "$bearer" -H 'Host: evil.example'
answers 200 kvrail_agent_up prefill /metrics -H "$bearer" -H 'Host: agent.example'
answers 403 "another site" prefill /metrics -H "$bearer" -H 'Origin: https://evil.example'
answers 405 "only GET and HEAD" prefill /metrics -H "$bearer" -X POST -d x
answers 404 "an agent has" prefill /api/v1/agents -H "$bearer"
answers 404 "an agent has" prefill "/../etc/passwd" -H "$bearer" --path-as-is
answers 403 "a certificate of this role" prefill /metrics --cert "$tls/decode-0.pem" --key "$tls/decode-0-key.pem"
got=$(at prefill /metrics -o "$work/body" -w '%{http_code}' -H "X: $(printf '%060000d' 1)") || got="$got, closed"
[ "$got" != 200 ] || fail "a header of 60,000 bytes was taken"
! curl -s -m 5 "http://127.0.0.1:$(cat "$work/prefill.http")/healthz" >/dev/null || fail "it answers without TLS"
# has LINE: among the prefill-agent's metrics, which are up to a second old.
has() { at prefill /metrics >"$work/metrics" && grep -q "^$1\$" "$work/metrics"; }
wait_for 10 has 'kvrail_http_refusals_total{reason="foreign_host"} 1' ||
    fail "refusals are not counted: $(at prefill /metrics | grep kvrail_http_refusals)"

echo "== slow clients"
replays_beside 2
for role in prefill decode; do
    "$bin/../tests/tls_knock" "$(cat "$work/$role.http")" from=127.0.0.2 open=500 seconds=$((6 * patience)) \
        >"$work/flood.$role" &
    started_pids="$started_pids $!"
done
fastest=100000 # of those while the flood lasts: on a busy machine any one may wait for a core
for round in 1 2 3 4 5; do
    for role in prefill decode; do
        began=$(date +%s%3N)
        at $role /metrics >"$work/body" || fail "$role does not answer beside slow clients"
        took=$(($(date +%s%3N) - began))
        [ $took -ge $fastest ] || fastest=$took
    done
    held=$(find "/proc/$prefill_pid/fd" -mindepth 1 -lname 'socket:*' | wc -l)
    [ "$held" -lt 128 ] || fail "the prefill-agent holds $held sockets beside slow clients"
    sleep 0.3
done
[ $fastest -lt $((1000 * patience)) ] || fail "answers beside slow clients took $fastest ms"
wait_for 10 has 'kvrail_http_connections_refused_total{limit="host"} [1-9][0-9]*' ||
    fail "no connection of the flood was refused"
finish_replays_beside

echo "== another scheduler"
kill -9 "$scheduler_pid"
goes_on() {
    health "$1" 200 '"scheduler":"'"$other"'"' &&
        at "$1" /metrics | grep -q "^kvrail_agent_scheduler{agent=\"$1-0\",scheduler=\"$other\"} 1\$"
}
for role in prefill decode; do
    wait_for 20 goes_on $role || fail "$role does not report to $other: $(cat "$work/health")"
    said=$(grep -c "the scheduler at $scheduler takes no reports: .*; reports go to $other now" "$work/$role.log") ||
        true
    [ "$said" = 1 ] || fail "$role says $said times that its reports go to $other"
done
is_known() { tool status --scheduler "$other" --all >"$work/status" && [ "$(grep -c "  $other\$" "$work/status")" = 2 ]; }
wait_for 20 is_known || fail "$other does not show the agents: $(cat "$work/status")"

echo "== without a scheduler"
kill -9 "$other_pid"
before=$(posted)
replay --requests 8 --concurrency 2 || fail "the replay without a scheduler failed"
expect verified 8
rose() { [ "$(posted)" -gt "$before" ]; }
wait_for 10 rose || fail "$(posted) bytes were posted, and $before before"
for role in prefill decode; do
    wait_for 20 health $role 200 '"status":"ok","problems":[],"scheduler":null' || fail "$role is not well without a scheduler: $(cat "$work/health")"
done

echo "== a loop that stands still"
mkfifo "$work/release"
"$bin/../tests/hold_thread" "$prefill_pid" <"$work/release" >"$work/hold.log" 2>&1 &
hold=$!
started_pids="$started_pids $hold"
exec 5>"$work/release"
if wait_for 5 file_has "$work/hold.log" held; then
    wait_for 20 health prefill 503 '"problem":"loop_still"' || fail "nothing is said: $(cat "$work/health")"
    at prefill /metrics | grep -q '^kvrail_agent_up{agent="prefill-0",role="prefill"} 0$' ||
        fail "it is up: $(at prefill /metrics | grep kvrail_agent_up)"
    exec 5>&-
    wait $hold || fail "the thread was not let go"
    wait_for 20 health prefill 200 '"ok"' || fail "it is not well again: $(cat "$work/health")"
else
    echo "a thread cannot be held here: $(cat "$work/hold.log")"
    exec 5>&-
fi

echo "== an agent that ends"
decode_has() { at decode /metrics >"$work/metrics" && grep -q "^$1\$" "$work/metrics"; }
for line in '# TYPE kvrail_slots gauge' 'kvrail_slots{agent="decode-0"} 0' 'kvrail_slots_limit{agent="decode-0"} 4096'; do
    wait_for 10 decode_has "$line" || fail "$line is not there: $(grep kvrail_slots "$work/metrics")"
done
hold_pair "$source_agent" wait
wait_for 10 decode_has 'kvrail_slots{agent="decode-0"} 1' ||
    fail "a transfer has no slot: $(grep kvrail_slots "$work/metrics")"
kill -TERM "$decode_pid"
wait_for 10 health decode 503 '"problem":"stopping"' || fail "it does not say so: $(cat "$work/health")"
exec 4>&-
wait "$decode_pid" || fail "the agent ended with $?"
! at decode /healthz >/dev/null 2>&1 || fail "an agent that has ended answers"

echo "== without --http"
has_thread() { grep -sqx kvr-http "/proc/$1/task"/*/comm; }
has_thread "$prefill_pid" || fail "the thread of --http has another name"
decode_options=
start_decode
! has_thread "$decode_pid" || fail "an agent without --http has a thread for it"

for pid in $prefill_pid $decode_pid; do
    kill -TERM "$pid"
done
for pid in $prefill_pid $decode_pid; do
    wait "$pid" || fail "an agent ended with $?"
done
echo "agent_http: 7 passed, 0 failed, 0 skipped"
