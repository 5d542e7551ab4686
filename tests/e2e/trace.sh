#!/bin/sh
# Goal: a request trace of another format becomes a trace. The tools cut, merge, anonymise and check it. A
# replay plays it through real agents, with every byte right. A damaged trace is told apart. Method: synthesised
# requests; the tools' output; a file without a footer, and files that were changed; agents that are killed.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent
command -v python3 >/dev/null || { echo "there is no python3" >&2; exit 77; }
trace() { "$bin/kvrail" trace "$@"; }

# says FILE KEY VALUE: of what `info` says in JSON.
says() {
    trace info "$1" --json "$work/info.json" >/dev/null 2>"$work/info.log" || true
    grep -q "^  \"$2\": $3,*$" "$work/info.json" || fail "$1: $2 is not $3: $(cat "$work/info.json")"
}

echo "== import"
trace synth --requests 60 --seed 3 --output "$work/requests.jsonl" || fail "synth failed"
trace import --format mooncake "$work/requests.jsonl" --output "$work/a.kvtrace.zst" 2>"$work/import.log" ||
    fail "the import failed: $(cat "$work/import.log")"
says "$work/a.kvtrace.zst" requests 60
says "$work/a.kvtrace.zst" complete true
trace validate "$work/a.kvtrace.zst" >"$work/out" || fail "it is not valid: $(cat "$work/out")"
sed '7s/.*/{"timestamp": 1, "input_length": -4}/' "$work/requests.jsonl" >"$work/wrong.jsonl"
! trace import --format mooncake "$work/wrong.jsonl" --output "$work/x.kvtrace" 2>"$work/import.log" ||
    fail "a wrong line was taken"
file_has "$work/import.log" "wrong.jsonl, line 7: input_length is not a whole number" ||
    fail "the wrong line is not named: $(cat "$work/import.log")"
trace import --format mooncake --on-error skip "$work/wrong.jsonl" --output "$work/x.kvtrace" 2>"$work/import.log" ||
    fail "the wrong line was not skipped: $(cat "$work/import.log")"
file_has "$work/import.log" "wrong.jsonl, line 7: " || fail "the skipped line is not named"
says "$work/x.kvtrace" requests 59
# Results and logs of vLLM and SGLang, compressed and by standard input.
cat >"$work/vllm.json" <<'END'
{"request_rate": "inf", "duration": 9.5, "input_lens": [700, 30], "output_lens": [5, 6], "start_times": [100.5, 101.0], "generated_texts": ["secret-text", "secret-text"], "errors": ["", ""]}
END
cat >"$work/sglang.jsonl" <<'END'
{"backend": "sglang", "request_rate": Infinity, "duration": 2.0, "input_lens": [5, 6], "output_lens": [1, 1]}
{"backend": "sglang", "request_rate": 2.0, "duration": 2.0}
END
cat >"$work/sglang.log" <<'END'
{"timestamp": "2026-11-27T10:00:01.500000", "event": "request.received", "rid": "a", "obj": {"text": "secret-text"}}
{"timestamp": "2026-11-27T10:00:02.500000", "event": "request.finished", "rid": "a", "obj": {"text": "secret-text"}, "out": {"meta_info": {"prompt_tokens": 12, "completion_tokens": 3, "e2e_latency": 1.0}}}
END
zstd -q "$work/vllm.json" "$work/sglang.log"
trace import --format vllm-bench "$work/vllm.json.zst" --output "$work/vllm.kvtrace" || fail "vllm-bench failed"
says "$work/vllm.kvtrace" requests 2
says "$work/vllm.kvtrace" seconds 0.5
trace import --format sglang-bench --on-error skip - --output - <"$work/sglang.jsonl" 2>"$work/import.log" |
    trace cut - --output "$work/sglang.kvtrace.zst" || fail "sglang-bench failed"
says "$work/sglang.kvtrace.zst" requests 2
file_has "$work/import.log" "standard input, line 2: input_lens is missing" || fail "the run without details is not named"
trace import --format sglang-log - --output "$work/log.kvtrace" <"$work/sglang.log.zst" || fail "sglang-log failed"
grep -q '"input_tokens":12,"output_tokens":3' "$work/log.kvtrace" || fail "the logged request is not there"
! grep -q secret "$work/vllm.kvtrace" "$work/log.kvtrace" || fail "a text reached the trace"

echo "== parts"
trace head "$work/a.kvtrace.zst" --count 5 --output "$work/head.kvtrace" || fail "head failed"
says "$work/head.kvtrace" requests 5
trace info "$work/a.kvtrace.zst" --json "$work/info.json" >/dev/null
half=$(($(sed -n 's/^  "seconds": \([0-9]*\).*/\1/p' "$work/info.json") / 2))
trace cut "$work/a.kvtrace.zst" --to "${half}s" --output "$work/first.kvtrace" || fail "cut failed"
trace cut "$work/a.kvtrace.zst" --from "${half}s" --output "$work/second.kvtrace" || fail "cut failed"
trace merge "$work/first.kvtrace" "$work/second.kvtrace" --output "$work/merged.kvtrace" || fail "merge failed"
says "$work/merged.kvtrace" requests 60
trace cut "$work/a.kvtrace.zst" --output "$work/whole.kvtrace" || fail "cut failed"
grep request "$work/whole.kvtrace" >"$work/one"
grep request "$work/merged.kvtrace" >"$work/two"
cmp "$work/one" "$work/two" || fail "the halves together are another trace"
trace merge "$work/merged.kvtrace" "$work/first.kvtrace" --output "$work/again.kvtrace" 2>"$work/log" || fail "merge failed"
grep request "$work/again.kvtrace" >"$work/two"
cmp "$work/one" "$work/two" || fail "requests of both traces are there twice"

echo "== merge of windows that overlap"
# lines of agents: a name, its rails and their trace's start.
begin() {
    printf '{"kvtrace":{"version":1,"start_us":%s}}\n' "$3"
    printf '{"agent":{"number":0,"name":"%s","role":"source","rails":[{"name":"%s"},{"name":"two"}]}}\n' "$1" "$2"
    printf '{"agent":{"number":1,"name":"d","role":"target"}}\n'
}
# whole NAME: the trace on standard input, with a footer.
whole() {
    cat >"$work/$1.cut"
    trace cut "$work/$1.cut" --output "$work/$1.kvtrace" 2>"$work/log" || true
}
{
    begin p one 1000
    echo '{"mark":{"at_us":50,"agent":0,"kind":"started"}}'
    echo '{"transfer":{"id":"c","request":"r","at_us":40,"outcome":"done","source":{"agent":0},"target":{"agent":1}}}'
    echo '{"transfer":{"id":"b","request":"r","at_us":20,"outcome":"live","source":{"agent":0},"target":{"agent":1}}}'
    echo '{"transfer":{"id":"a","request":"r","at_us":10,"outcome":"done","source":{"agent":0,"rails":[[0,1,7,0]]},"target":{"agent":1}}}'
} | whole early
{
    begin p one 1010
    echo '{"transfer":{"id":"b","request":"r","at_us":10,"outcome":"done","source":{"agent":0},"target":{"agent":1}}}'
    echo '{"transfer":{"id":"a","request":"r","at_us":0,"outcome":"done","source":{"agent":0},"target":{"agent":1}}}'
    echo '{"transfer":{"id":"c","request":"r","at_us":31,"outcome":"done","source":{"agent":0},"target":{"agent":1}}}'
    echo '{"mark":{"at_us":40,"agent":0,"kind":"started"}}'
} | whole late
trace validate "$work/early.kvtrace" >"$work/out" 2>"$work/log" || fail "the order makes a trace not valid"
file_has "$work/log" "3 records stand behind a later one, line 5 is the first" || fail "the order is not noted: $(cat "$work/log")"
trace merge "$work/early.kvtrace" "$work/late.kvtrace" --output "$work/both.kvtrace" 2>"$work/log" || fail "merge failed"
file_has "$work/log" "3 records are in several traces and are written once; of 2 transfers" ||
    fail "what is twice is not noted: $(cat "$work/log")"
[ "$(sed -n 's/.*"at_us":\([0-9]*\).*/\1/p' "$work/both.kvtrace" | tr '\n' ' ')" = "10 20 40 41 50 " ] ||
    fail "the merged records are others: $(cat "$work/both.kvtrace")"
grep -q '"id":"a".*"rails":\[\[0,1,7,0\]\]' "$work/both.kvtrace" || fail "the poorer record of a was written"
grep -q '"id":"b".*"outcome":"done"' "$work/both.kvtrace" || fail "the live record of b was written"
trace validate "$work/both.kvtrace" >"$work/out" 2>"$work/log" || fail "not valid"
! grep -q note "$work/log" || fail "merged records are out of order"
# Two requests of one trace are two, also where they are the same.
{
    begin p one 1000
    echo '{"request":{"id":"same","at_us":7,"input_tokens":9}}'
    echo '{"request":{"id":"same","at_us":7,"input_tokens":9}}'
} | whole pair
trace merge "$work/pair.kvtrace" "$work/pair.kvtrace" --output "$work/both.kvtrace" 2>"$work/log" || fail "merge failed"
says "$work/both.kvtrace" requests 2
# An agent with other rails is another one, and so are its rails.
{
    begin p other 1000
    echo '{"transfer":{"id":"z","request":"q","at_us":5,"outcome":"done","source":{"agent":0,"rails":[[1,1,9,0]]},"target":{"agent":1}}}'
} | whole rails
trace merge "$work/early.kvtrace" "$work/rails.kvtrace" --output "$work/both.kvtrace" || fail "merge failed"
says "$work/both.kvtrace" prefill_agents 2
says "$work/both.kvtrace" decode_agents 1
says "$work/both.kvtrace" transfers 4
grep -q '"number":2,"name":"p".*"name":"other"' "$work/both.kvtrace" || fail "the other p is not there"
grep -q '"id":"z".*"source":{"agent":2,.*"rails":\[\[1,1,9,0\]\]' "$work/both.kvtrace" || fail "z is of the wrong p"

echo "== anonymise"
cat >"$work/named.kvtrace" <<'END'
{"kvtrace":{"version":1,"start":"2026-11-27T10:00:00.000Z","start_us":1795773600000000,"plain_ids":true,"note":"secret-note"}}
{"agent":{"number":0,"name":"secret-agent","role":"source","host":"secret-host","options":"--secret","rails":[{"name":"secret-card","plane":"secret-plane"}]}}
{"agent":{"number":1,"name":"secret-other","role":"target","host":"secret-host"}}
{"engine":{"number":0,"agent":0,"name":"secret-engine"}}
{"request":{"id":"secret-request","tenant":"secret-tenant","at_us":5,"input_tokens":700,"source":0,"target":1,"blocks":[424242,31337]}}
{"transfer":{"id":"00000000deadbeef","request":"secret-request","tenant":"secret-tenant","at_us":5,"tokens":700,"bytes":1000,"outcome":"failed","reason":"no_rail","detail":"secret sentence","source":{"agent":0,"engine":0},"target":{"agent":1}}}
{"mark":{"at_us":9,"agent":0,"kind":"option","before":"secret","after":"secret"}}
{"fault":{"at_us":9,"agent":0,"rail":0,"kind":"rail_lost","text":"secret"}}
END
! trace validate "$work/named.kvtrace" >"$work/out" 2>&1 || fail "a file without a footer is valid"
file_has "$work/out" "it has no footer" || fail "the cut is not named: $(cat "$work/out")"
trace cut "$work/named.kvtrace" --output "$work/whole.kvtrace" 2>"$work/out" || true
trace anonymise "$work/whole.kvtrace" --output "$work/masked.kvtrace" || fail "anonymise failed"
for word in secret 424242 31337 deadbeef 2026-11 1795773600; do
    ! grep -q "$word" "$work/masked.kvtrace" || fail "$word is still there: $(grep "$word" "$work/masked.kvtrace")"
done
for word in '"reason":"no_rail"' '"tokens":700' '"kind":"rail_lost"' '"name":"prefill-0"' '"host":"host-0"'; do
    grep -q "$word" "$work/masked.kvtrace" || fail "$word is gone"
done
[ "$(grep -o '"request":"[0-9a-f]*"' "$work/masked.kvtrace" | cut -d'"' -f4)" = \
    "$(grep -o '"request":{"id":"[0-9a-f]*"' "$work/masked.kvtrace" | cut -d'"' -f6)" ] ||
    fail "a transfer and its request have different ids"
trace validate "$work/masked.kvtrace" >"$work/out" 2>&1 || fail "not valid: $(cat "$work/out")"

echo "== damage"
sed 's/"tokens":700/"tokens":701/' "$work/masked.kvtrace" >"$work/changed.kvtrace"
! trace validate "$work/changed.kvtrace" >"$work/out" 2>&1 || fail "a changed file is valid"
file_has "$work/out" "changed or damaged" || fail "the change is not named: $(cat "$work/out")"
sed 's/"source":{"agent":0,/"source":{"agent":1,/' "$work/masked.kvtrace" >"$work/changed.kvtrace"
! trace validate "$work/changed.kvtrace" >"$work/out" 2>&1 || fail "a transfer from a decode-agent is valid"
file_has "$work/out" "agent 1 is no prefill-agent" || fail "the role is not named: $(cat "$work/out")"
! trace info "$work/requests.jsonl" 2>"$work/out" || fail "a request trace is no trace of transfers"
file_has "$work/out" "is no trace of transfers" || fail "that is not said: $(cat "$work/out")"

echo "== compare"
! "$bin/kvrail" compare "$work/masked.kvtrace" "$work/masked.kvtrace" --fail-if 'p99_total>+0%' >"$work/out" 2>&1 ||
    fail "a condition holds where nothing is done"
file_has "$work/out" "too few to say" || fail "one transfer is enough for a verdict: $(cat "$work/out")"
file_has "$work/out" "p99_total>+0% cannot be said" || fail "that is not said: $(cat "$work/out")"
! "$bin/kvrail" compare "$work/masked.kvtrace" "$work/masked.kvtrace" --fail-if 'total>5%' >"$work/out" 2>&1 ||
    fail "a condition without a figure was taken"
file_has "$work/out" "write a condition as" || fail "the condition is not explained: $(cat "$work/out")"

echo "== replay"
prefill_options="--spans-every 1" decode_options="--spans-every 1"
start_all
for file in a.kvtrace.zst masked.kvtrace; do
    wanted=20
    [ $file != masked.kvtrace ] || wanted=1
    replay --trace "$work/$file" --format kvtrace --requests 20 || fail "the replay of $file failed"
    expect transfers $wanted
    expect verified $wanted
    expect bytes_wrong 0
done

echo "== record"
# recorded FILE [ARGUMENT…]
recorded() {
    file=$1
    shift
    tool trace record --scheduler "$scheduler" --output "$work/$file" "$@" >"$work/out" 2>&1 ||
        fail "nothing was recorded into $file: $(cat "$work/out")"
    trace validate "$work/$file" >"$work/out" 2>&1 || fail "$file is not valid: $(cat "$work/out")"
}
printf '%064x\n' 7 >"$work/key"
# Agents report what has ended a little later.
all_reported() {
    recorded one.kvtrace --key-file "$work/key"
    [ "$(grep -c '"transfer".*"source":{.*"layers_us".*"target":{.*"layers_us"' "$work/one.kvtrace")" = 21 ]
}
wait_for 10 all_reported || fail "not all was reported: $(cat "$work/one.kvtrace")"
recorded two.kvtrace.zst --key-file "$work/key"
recorded other.kvtrace
recorded plain.kvtrace --plain-ids
says "$work/one.kvtrace" transfers 21
says "$work/one.kvtrace" prefill_agents 1
says "$work/one.kvtrace" decode_agents 1
says "$work/one.kvtrace" with_spans 21
says "$work/one.kvtrace" dropped 0
grep -q '"options":"[^"]*spans-every=1' "$work/one.kvtrace" || fail "the agents' options are not there"
request=$(sed -n 's/.*"transfer":{"id":"[0-9a-f]*","request":"\([^"]*\)".*/\1/p' "$work/plain.kvtrace" | head -n 1)
[ -n "$request" ] || fail "the plain trace has no request"
! grep -q "\"$request\"" "$work/one.kvtrace" || fail "the id of a request is readable"
"$bin/kvrail" compare "$work/one.kvtrace" "$work/two.kvtrace.zst" --fail-if 'p99_total>+0%' --html "$work/page.html" \
    --json "$work/compare.json" >"$work/out" || fail "the recordings cannot be compared: $(cat "$work/out")"
grep -q '"distinguishable": false' "$work/compare.json" || fail "the JSON says another thing"
tail -n 1 "$work/page.html" | grep -q '</html>$' || fail "the page is not whole"
file_has "$work/out" "A and B are not distinguishable" || fail "equal recordings differ: $(cat "$work/out")"
grep -q '"matched_by": "id"' "$work/compare.json" || fail "with one key requests are not matched by id"
"$bin/kvrail" compare "$work/one.kvtrace" "$work/other.kvtrace" --json "$work/compare.json" >"$work/out" || fail "compare"
grep -q '"matched_by": "order"' "$work/compare.json" || fail "two keys give the same ids"
recorded none.kvtrace --state failed
says "$work/none.kvtrace" transfers 0
recorded agent.kvtrace --agent prefill-0 --since 1h
says "$work/agent.kvtrace" transfers 21
trace validate "$work/agent.kvtrace" >"$work/out" 2>"$work/log" || fail "not valid"
! grep -q note "$work/log" || fail "a recording is out of order: $(cat "$work/log")"
# More marks than one answer has, six of them of one moment at its end.
python3 - "$work/scheduler" <<'END' || fail "no marks were added"
import glob, sqlite3, sys, time
database = sqlite3.connect(glob.glob(sys.argv[1] + "/*.db")[0], timeout=20)
now = time.time_ns()
with database:
    for i in range(1200):
        at = now - 60 * 10**9 - (i // 6) * 6 * 10**7
        database.execute("INSERT INTO marks VALUES (?, ?, 'option', ?, 'x', 'y')", (f"agent-{i:04}", i, at))
END
recorded marks.kvtrace
[ "$(grep -c '"before":"x","after":"y"' "$work/marks.kvtrace")" = 1200 ] ||
    fail "$(grep -c '"before":"x"' "$work/marks.kvtrace") of 1200 marks were recorded"

echo "== exit status of a recording"
# ends STATUS WORDS ARGUMENT…: a recording's exit status, and what it says.
ends() {
    wanted=$1 words=$2 status=0
    shift 2
    tool trace record "$@" >"$work/out" 2>&1 || status=$?
    [ $status = "$wanted" ] || fail "trace record $*: exit status $status, not $wanted: $(cat "$work/out")"
    file_has "$work/out" "$words" || fail "trace record $*: it does not say \"$words\": $(cat "$work/out")"
}
ends 0 "21 transfers" --scheduler "$scheduler" --output "$work/x.kvtrace"
ends 1 "cannot be written" --scheduler "$scheduler" --output /nowhere/x.kvtrace
ends 2 "--output" --scheduler "$scheduler"
ends 2 "64 hexadecimal digits" --scheduler "$scheduler" --output "$work/y.kvtrace" --key-file "$work/log"
ends 75 "127.0.0.1:9" --scheduler 127.0.0.1:9 --output "$work/y.kvtrace"
[ ! -e "$work/y.kvtrace" ] || fail "a failed recording left a whole file"

echo "== record, anonymise, replay, compare"
# shellcheck disable=SC2046 # variables
(exec env $(tool_environment) "$bin/kvrail" trace record --scheduler "$scheduler" --output "$work/later.kvtrace" \
    --since 0s --during 10min --pages) >"$work/recording.log" 2>&1 &
recording=$!
wait_for 30 file_has "$work/recording.log" "recording; " || fail "no recording began: $(cat "$work/recording.log")"
replay --trace "$work/a.kvtrace.zst" --format kvtrace --requests 12 || fail "the replay failed"
all_known() { [ "$(ask_scheduler '/api/v1/transfers?limit=500&state=done' | grep -o '"attempt"' | wc -l)" = 33 ]; }
wait_for 10 all_known || fail "the scheduler does not know all 33 transfers"
kill -TERM $recording
wait $recording || fail "the live recording failed: $(cat "$work/recording.log")"
says "$work/later.kvtrace" transfers 12
# A recorder asked for page tables: each side has them, and the earlier recording has none.
! grep -q '"pages"' "$work/one.kvtrace" || fail "page tables came unasked"
sed -n '/"transfer"/p' "$work/later.kvtrace" >"$work/moved"
python3 - "$work/moved" <<'END' || fail "the page tables do not fit"
import json, sys

for line in open(sys.argv[1]):
    transfer = json.loads(line)["transfer"]
    sizes = []
    for side in (transfer["source"], transfer["target"]):
        tables = side["pages"]
        assert [one.get("group", 0) for one in tables] == sorted({one.get("group", 0) for one in tables}), tables
        for table in tables:
            runs = table["runs"]
            pages = [page for first, count in runs for page in range(first, first + count)]
            assert len(pages) == len(set(pages)), ("a page stands twice", table)
            assert all(a[0] + a[1] != b[0] for a, b in zip(runs, runs[1:])), ("two runs are one", table)
        sizes.append(sum(count for first, count in tables[0]["runs"]))
    for size in sizes: # a page of the model has 16 tokens
        assert size == -(-transfer["tokens"] // 16), (sizes, transfer["tokens"])
END
trace anonymise "$work/later.kvtrace" --output "$work/given.kvtrace.zst" || fail "anonymise failed"
replay --trace "$work/given.kvtrace.zst" --format kvtrace --requests 0 || fail "the replay of the recording failed"
expect verified 12
expect bytes_wrong 0
replay --trace "$work/vllm.json.zst" --format vllm-bench --requests 0 || fail "the replay of a benchmark's requests failed"
expect verified 2

# Each transfer names engines on both sides, with how their pages are made: most lived for less than a second.
engines_known() {
    recorded gone.kvtrace --since 1h
    python3 - "$work/gone.kvtrace" >"$work/engines.log" 2>&1 <<'END'
import json, sys

records = [json.loads(line) for line in open(sys.argv[1])]
assert sum("transfer" in one for one in records) == 47, "not all transfers are there"
engines = {one["engine"]["number"]: one["engine"] for one in records if "engine" in one}
geometries = {one["geometry"]["number"]: one["geometry"] for one in records if "geometry" in one}
for one in records:
    for side in ("source", "target") if "transfer" in one else ():
        engine = engines[one["transfer"][side]["engine"]]
        assert "geometry" in engine, engine
        groups = geometries[engine["geometry"]]["groups"]
        assert groups and all(group["page_bytes"] > 0 and group["layers"] > 0 for group in groups), engine
END
}
wait_for 20 engines_known || fail "an engine that has gone is not known: $(cat "$work/engines.log")"

echo "== faults"
# A decode-agent is killed and started again: its prefill-agent loses a peer.
kill -KILL "$decode_pid"
wait "$decode_pid" 2>/dev/null || true
start_decode
has_fault() {
    recorded faults.kvtrace --since 10min
    grep -q "\"fault\":{[^}]*\"kind\":\"$1\"" "$work/faults.kvtrace"
}
wait_for 20 has_fault agent_ended || fail "the killed agent is no fault: $(cat "$work/faults.kvtrace")"
grep '"kind":"agent_ended"' "$work/faults.kvtrace" | grep -q '"for_us":[1-9]' || fail "its absence has no length"
wait_for 20 has_fault peer_lost || fail "the prefill-agent lost no peer: $(grep '"fault"' "$work/faults.kvtrace")"
ask_scheduler '/api/v1/faults' | grep -q '"kind":"agent_ended"' || fail "the API has no fault"

echo "== engines that have gone"
# The replays have ended, an agent was killed, and the scheduler starts anew.
kill -TERM "$scheduler_pid"
wait "$scheduler_pid" || fail "the scheduler ended with status $?"
start_scheduler
engines_known || fail "an engine that has gone is not known: $(cat "$work/engines.log")"
ask_scheduler '/api/v1/engines?agent=decode-0&limit=1' >"$work/body"
grep -q '"next":"[0-9]' "$work/body" || fail "there is one engine of decode-0 alone: $(cat "$work/body")"
engines_of_decode() {
    ask_scheduler '/api/v1/engines?agent=decode-0&limit=500' | grep -o '"first_seen"' | wc -l
}
known=$(engines_of_decode)
replay --trace "$work/a.kvtrace.zst" --format kvtrace --requests 2 || fail "the last replay ended with $?"
kill -TERM "$decode_pid"
wait "$decode_pid" || fail "the decode-agent ended with status $?"
[ "$(engines_of_decode)" -gt "$known" ] || fail "an agent that stops does not name the engine of its last second"
echo "e2e.trace: passed"
