#!/bin/sh
# Goal: the small subcommands of `kvrail` do what their --help says: a synthesised trace is read back by
# replay, status shows what ran, topo lists the rails that agents can open.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
# A name as long as an engine takes: the scheduler gets all of it.
long=prefill.rack-with-a-long-name.row-with-a-long-name.datacentre-with-a-long-name.region.example.internal
prefill_options="--advertise $long:9480"
start_all
says() {
    grep -q -- "$2" "$1" || fail "$(basename "$1") does not say '$2': $(cat "$1")"
}

for command in "" replay trace "trace synth" status topo doctor why; do
    # shellcheck disable=SC2086 # words of a command
    "$bin/kvrail" $command --help >"$work/help" || fail "kvrail $command --help ended in $?"
    says "$work/help" 'Usage: kvrail'
    awk 'length > 100 { exit 1 }' "$work/help" || fail "kvrail $command --help has long lines"
done
"$bin/kvrail" --version >"$work/version"
says "$work/version" '[0-9]\.[0-9]'
status=0
"$bin/kvrail" nonsense 2>"$work/nonsense" || status=$?
[ $status = 2 ] || fail "kvrail nonsense ended in $status"
status=0
"$bin/kvrail" sim --seeds 0:0 2>"$work/nothing" || status=$?
[ $status = 2 ] || fail "kvrail sim of no seed ended in $status"
says "$work/nothing" 'COUNT at least 1'

"$bin/kvrail" trace synth --requests 15 --seed 5 --output "$work/a.jsonl"
"$bin/kvrail" trace synth --requests 15 --seed 5 >"$work/b.jsonl"
"$bin/kvrail" trace synth --requests 15 --seed 6 >"$work/c.jsonl"
cmp "$work/a.jsonl" "$work/b.jsonl" || fail "the same seed gave another trace"
cmp -s "$work/a.jsonl" "$work/c.jsonl" && fail "another seed gave the same trace"
replay --trace "$work/a.jsonl" --requests 0 || fail "the synthesised trace ended in $?"
expect verified 15

# Agents report within a second or two.
status_is_known() {
    tool status --scheduler "$scheduler" --limit 5 >"$work/status" &&
        [ "$(grep -c ' done ' "$work/status")" = 5 ] &&
        grep -q '^prefill-0 .* up .* s  *1  *1 ' "$work/status" &&
        grep -q '^decode-0 .* up ' "$work/status"
}
wait_for 30 status_is_known ||
    fail "the scheduler does not know of the transfers and of a warm peer: $(cat "$work/status")"
says "$work/status" 'What is odd:'
tool status --scheduler "$scheduler" --json >"$work/status.json"
says "$work/status.json" '"transfers": \['
says "$work/status.json" '"peers_warm": 1'
tool status --scheduler "$scheduler" --json "$work/beside.json" >"$work/text"
says "$work/text" 'What is odd:'
says "$work/beside.json" '"transfers": \['
"$bin/kvrail" topo --provider tcp --json "$work/beside.json" >"$work/text"
says "$work/text" '^tcp .* lo '
says "$work/beside.json" '"provider_path"'
status=0
"$bin/kvrail" topo --json /nowhere/topo.json >"$work/text" 2>&1 || status=$?
[ $status = 2 ] || fail "topo with a file that cannot be written ended in $status: $(cat "$work/text")"
says "$work/text" "^kvrail topo: --json is '/nowhere/topo.json', but that cannot be written"
ask_scheduler /api/v1/agents >"$work/agents.json"
says "$work/agents.json" "\"$long:9480\""
# How the rails of the source reach those of its target.
pairs_are_known() {
    ask_scheduler '/api/v1/rails/matrix?source=prefill-0&target=decode-0' >"$work/matrix.json" &&
        grep -q '"target_rail":{"index":0,"name":"[^"]' "$work/matrix.json" &&
        grep -q '"state":"warm","detail":null,"bytes":[1-9]' "$work/matrix.json"
}
wait_for 30 pairs_are_known || fail "no pair of rails is warm: $(cat "$work/matrix.json")"
cp "$work/matrix.json" "$work/known.json"
ask_scheduler '/api/v1/rails/matrix?source=decode-0' >"$work/matrix.json"
says "$work/matrix.json" '{"pairs":\[\],"left_out":0}'

# Which pair a router had best use, while engines are there, and why there is none without them.
replays_beside 1
pairs_are_ranked() {
    ask_scheduler '/api/v1/pairs?tokens=1000&model=llama-3.1-8b' >"$work/pairs.json" &&
        grep -q '"rank":1,"source":"prefill-0","target":"decode-0"' "$work/pairs.json" &&
        grep -q '"warm":[1-9],"trouble":0},"why":\["measured: ' "$work/pairs.json"
}
wait_for 30 pairs_are_ranked || fail "no pair of agents is ranked: $(cat "$work/pairs.json")"
ask_scheduler /api/v1/agents >"$work/agents.json"
python3 "$KVRAIL_ROOT_DIR/tests/support/openapi.py" "$KVRAIL_ROOT_DIR/scheduler/openapi.json" \
    /api/v1/agents 200 "$work/agents.json" /api/v1/rails/matrix 200 "$work/known.json" \
    /api/v1/pairs 200 "$work/pairs.json" >"$work/checked" 2>&1 || fail "the document: $(cat "$work/checked")"
finish_replays_beside
no_pair_is_ranked() {
    ask_scheduler '/api/v1/pairs?tokens=1000' >"$work/pairs.json" &&
        grep -q '{"agent":"prefill-0","reason":"prefill-0 has no engine"}' "$work/pairs.json"
}
wait_for 30 no_pair_is_ranked || fail "agents without engines are ranked: $(cat "$work/pairs.json")"

[ "$(wc -l <"$work/status")" -le 23 ] || fail "status does not fit on a screen: $(cat "$work/status")"
tool status --scheduler "$scheduler" --all >"$work/all"
says "$work/all" "^prefill-0  *1  *0 "
tool status --scheduler "$scheduler" --check >"$work/check" || fail "--check ended in $?: $(cat "$work/check")"
says "$work/check" '^all is well$'
tool status --scheduler "$scheduler" --check --json >"$work/check.json" || fail "--check --json ended in $?"
says "$work/check.json" '"well": true'
says "$work/check.json" '"findings": \['

status=0
tool status --scheduler 127.0.0.1:1 2>"$work/unreachable" || status=$?
[ $status = 75 ] || fail "status of nothing ended in $status"
says "$work/unreachable" 'no answer from the scheduler at https*://127.0.0.1:1'

"$bin/kvrail" topo >"$work/topo"
says "$work/topo" '^tcp .* lo '
says "$work/topo" '^local '
"$bin/kvrail" topo --provider tcp --json >"$work/topo.json"
says "$work/topo.json" '"provider_path"'

# What the rails did is in the metrics: writes, in batches, that took some time each, and nothing is
# under way any more.
rail_metric() {
    ask_scheduler /metrics |
        awk -v name="kvrail_rail_$1{agent=\"$2\"" 'index($0, name) == 1 { sum += $2 } END { print sum + 0 }'
}
ask_scheduler /metrics >"$work/metrics"
says "$work/metrics" '^# TYPE kvrail_rail_in_flight_writes gauge'
writes_are_reported() {
    [ "$(rail_metric writes_total prefill-0)" != 0 ] && [ "$(rail_metric in_flight_writes prefill-0)" = 0 ] &&
        [ "$(rail_metric bytes_total decode-0)" != 0 ]
}
wait_for 30 writes_are_reported ||
    fail "no writes of prefill-0, or none reported by decode-0: $(grep rail_ "$work/metrics")"
writes=$(rail_metric writes_total prefill-0)
batches=$(rail_metric batches_total prefill-0)
[ "$batches" -gt 0 ] && [ "$batches" -le "$writes" ] || fail "$writes writes in $batches batches"
above_0() { [ "$(rail_metric "$1" "$2" | awk '{ print ($1 > 0) }')" = 1 ] || fail "$1 of $2 is 0"; }
for metric in post_seconds_total completion_seconds_total window_writes; do
    above_0 $metric prefill-0
done
for metric in bytes_total writes_total; do
    above_0 $metric prefill-0
    above_0 $metric decode-0
done
ask_scheduler /metrics >"$work/metrics"
for metric in spin sleep cpu; do
    for agent in prefill-0 decode-0; do
        says "$work/metrics" "^kvrail_group_thread_${metric}_seconds_total{agent=\"$agent\",group=\"0\"} [0-9.]*[1-9]"
    done
done
says "$work/metrics" '^kvrail_rail_refusals_total{agent="prefill-0",rail="1",provider="tcp"} [0-9]'
ask_scheduler /api/v1/agents >"$work/agents.json"
for counter in batches refusals in_flight_writes window_writes post_seconds completion_seconds thread_spin_seconds \
    thread_sleep_seconds thread_cpu_seconds; do
    says "$work/agents.json" "\"$counter\": *[0-9]"
done

# An agent that is lost.
kill -9 "$decode_pid"
is_lost() {
    status=0
    tool status --scheduler "$scheduler" --check >"$work/check" || status=$?
    [ $status = 1 ] && grep -q '^decode-0 is lost; it was heard [0-9]* s ago$' "$work/check"
}
wait_for 30 is_lost || fail "--check ended in $status without decode-0: $(cat "$work/check")"
tool status --scheduler "$scheduler" >"$work/status"
[ "$(sed -n 3p "$work/status" | cut -d' ' -f1)" = decode-0 ] || fail "decode-0 does not come first: $(cat "$work/status")"
status=0
tool status --scheduler "$scheduler" --check --json >"$work/check.json" || status=$?
[ $status = 1 ] || fail "--check --json ended in $status"
says "$work/check.json" '"kind": "agent_lost"'
says "$work/check.json" '"well": false'
