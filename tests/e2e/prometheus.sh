#!/bin/sh
# Goal: a real Prometheus takes the scheduler's metrics as OpenMetrics, with exemplars that lead to transfers, and
# those of the agents' own ports. The rules, the alerts and the dashboard that come with kvrail name only metrics
# that are there. A killed agent raises an alert, and a killed scheduler does, while agents still show theirs.
# Method: Debian's Prometheus beside real agents and a replay; promtool; each expression of the dashboard is asked.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
PATH=$KVRAIL_ROOT_DIR/build/tools:$PATH
for program in prometheus promtool curl python3; do
    command -v $program >/dev/null || { echo "there is no $program" >&2; exit 77; }
done
[ "$secure" != no ] || { echo "this test needs certificates" >&2; exit 77; }
monitoring=$KVRAIL_ROOT_DIR/scheduler/monitoring
docs=$KVRAIL_ROOT_DIR/common/docs/operations.md

echo "== files"
promtool check rules "$monitoring/alerts.yml" "$monitoring/recording.yml" >"$work/promtool.log" 2>&1 ||
    fail "promtool refuses the rules"
promtool check config --syntax-only "$monitoring/prometheus.yml" >"$work/promtool.log" 2>&1 ||
    fail "promtool refuses prometheus.yml"
promtool test rules "$monitoring/tests.yml" >"$work/promtool.log" 2>&1 || fail "the alerts do not come as they should"
for anchor in $(sed -n 's/.*operations.md#\(.*\)/\1/p' "$monitoring/alerts.yml"); do
    grep -qF "<a id=\"$anchor\"></a>" "$docs" || fail "operations.md has no row $anchor"
done

echo "== metrics"
prefill_options="--http 0 --http-port-file $work/prefill.http"
decode_options="--http 0 --http-port-file $work/decode.http"
start_all
await prefill "$work/prefill.http"
await decode "$work/decode.http"
replay --requests 12 --concurrency 2 || fail "the replay failed"
expect verified 12
metrics | promtool check metrics >"$work/promtool.log" 2>&1 || fail "promtool refuses the metrics"
metrics >"$work/metrics"
cat "$monitoring"/[art]*.yml "$monitoring/grafana.json" | grep -o 'kvrail_[a-z0-9_]*' | sort -u |
    grep -v '^kvrail_recording$' >"$work/names"
while read -r name; do
    grep -q "^# TYPE ${name%_bucket} " "$work/metrics" || fail "no metric is called $name"
done <"$work/names"
cat "$monitoring"/*.yml "$monitoring/grafana.json" | grep -o 'kvrail:[a-z0-9_:]*' | sort -u >"$work/series"
while read -r name; do
    grep -q "record: $name\$" "$monitoring/recording.yml" || fail "no rule makes $name"
done <"$work/series"

echo "== scraped"
{
    echo 'global: {scrape_interval: 1s, evaluation_interval: 1s}'
    sed "/authorization/d
        s|{ca_file: [^}]*}|{ca_file: '$tls/ca.pem', cert_file: '$tls/tests.pem', key_file: '$tls/tests-key.pem'}|
        s|/usr/share/kvrail/monitoring|$monitoring|g
        s|10.0.0.5:9470|$scheduler|
        s|10.0.0.7:9490|127.0.0.1:$(cat "$work/prefill.http")|
        s|10.0.0.8:9490|127.0.0.1:$(cat "$work/decode.http")|" "$monitoring/prometheus.yml"
} >"$work/prometheus.yml"
port=$(python3 -c 'import socket
probe = socket.socket()
probe.bind(("127.0.0.1", 0))
print(probe.getsockname()[1])')
start prometheus prometheus --config.file "$work/prometheus.yml" --storage.tsdb.path "$work/tsdb" \
    --web.listen-address "127.0.0.1:$port" --enable-feature=exemplar-storage

# asks PATH [ARGUMENT…]: Prometheus' answer is in $work/asked.
asks() {
    path=$1
    shift
    curl -s -G -m $((10 * patience)) "$@" "http://127.0.0.1:$port/api/v1/$path" >"$work/asked"
}
# value EXPRESSION NUMBER: within some seconds.
value() { wait_for 60 has_value "$@" || fail "$1 is not $2: $(cat "$work/asked")"; }
has_value() {
    asks query --data-urlencode "query=$1" && grep -q "\"value\":\[[0-9.]*,\"$2\"\]" "$work/asked"
}
value 'up{job="kvrail"}' 1
value 'sum(kvrail_transfers_ended_total{outcome="done"})' 12
value 'sum(kvrail_agent_up)' 2
value 'count(kvrail_rail_info)' 4
value 'kvrail_ready' 1
value 'sum(kvrail_own_agent_up)' 2
value 'count(count by (agent) (kvrail_own_rail_bytes_total))' 2
value 'sum(kvrail_own_rail_up)' 4

echo "== an exemplar leads to a transfer"
asks query_exemplars --data-urlencode 'query=kvrail_transfer_duration_seconds_bucket{phase="total"}' \
    --data-urlencode "start=$(($(date +%s) - 600))" --data-urlencode "end=$(($(date +%s) + 60))"
id=$(sed -n 's/.*"transfer_id":"\([0-9a-f]\{16\}\)".*/\1/p' "$work/asked")
[ -n "$id" ] || fail "there is no exemplar: $(cat "$work/asked")"
ask_scheduler "/api/v1/transfers/$id" >"$work/asked"
grep -q '"state":"done"' "$work/asked" || fail "the exemplar $id is no transfer: $(cat "$work/asked")"

echo "== rules and the dashboard"
asks rules
! grep -q '"health":"err"\|"lastError":"[^"]' "$work/asked" || fail "a rule fails: $(cat "$work/asked")"
python3 -c 'import json, sys
for panel in json.load(open(sys.argv[1]))["panels"]:
    for target in panel["targets"]:
        print(target["expr"])' "$monitoring/grafana.json" >"$work/expressions"
while read -r expression; do
    asks query --data-urlencode "query=$expression"
    grep -q '"status":"success"' "$work/asked" || fail "$expression: $(cat "$work/asked")"
done <"$work/expressions"

echo "== a killed agent raises an alert"
has_alert() { asks alerts && grep -q '"alertname":"KvrailAgentDown"' "$work/asked"; }
! has_alert || fail "an agent is down before one was killed"
kill -9 "$decode_pid"
wait_for 60 has_alert || fail "no alert came: $(cat "$work/asked")"
grep -q '"agent":"decode-0"' "$work/asked" || fail "the alert names another agent: $(cat "$work/asked")"

echo "== a killed scheduler does not blind"
gone_alert() { asks alerts && grep -q '"alertname":"KvrailSchedulerGone"' "$work/asked"; }
kill -9 "$scheduler_pid"
wait_for 120 gone_alert || fail "no alert came: $(cat "$work/asked")"
value 'sum(kvrail_own_agent_up)' 1
value 'sum(up{job="kvrail_agents"})' 1
echo "prometheus: 7 passed, 0 failed, 0 skipped"
