#!/bin/sh
# Goal: a recorded trace is played as it was. Each transfer goes between the agents that had it, with its page
# tables, prefix, priority, deadline, cancel and times of layers. Faults that a replay can cause are played. Method:
# two prefill-agents and two decode-agents; a trace written by hand; what the scheduler recorded of the replay.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent

# start_agent ROLE NUMBER: its socket is $work/ROLE-NUMBER.sock.
start_agent() {
    name=$1-$2
    listen=
    [ "$1" = decode ] || listen="--listen 127.0.0.1:0 --port-file $work/$name.port"
    # shellcheck disable=SC2046,SC2086 # options
    start "$name" "$bin/$1-agent" --name "$name" $(credentials "$1" "$name") --engine-socket "$work/$name.sock" \
        --provider tcp --rail 127.0.0.1 --rail 127.0.0.2 --scheduler "$scheduler" --state-dir "$work/$name" --pages-every 1 $listen
    eval "pid_$1_$2=$started"
    await "$name" "$work/$name.sock"
    [ "$1" = decode ] || await "$name" "$work/$name.port"
}

start_scheduler
for number in 0 1; do
    start_agent prefill $number
    start_agent decode $number
done

# play ARGUMENT…: at all four agents; "NAME=" of sources in $east and $west, of targets in $north and $south.
east='' west='' north='' south=''
play() {
    rm -f "$work/figures.json" "$work/journal"
    # shellcheck disable=SC2046 # variables
    env $(tool_environment) "$bin/kvrail" replay --json "$work/figures.json" --kv-bytes-per-token 2k --pool-bytes 64M \
        --source-socket "$east$work/prefill-0.sock" --source-agent "127.0.0.1:$(cat "$work/prefill-0.port")" \
        --source-socket "$west$work/prefill-1.sock" --source-agent "127.0.0.1:$(cat "$work/prefill-1.port")" \
        --target-socket "$north$work/decode-0.sock" --target-socket "$south$work/decode-1.sock" \
        --journal "$work/journal" --format kvtrace "$@" >>"$work/replay.log" 2>&1
}

# refused TEXT ARGUMENT…: a usage error with that sentence.
refused() {
    text=$1 status=0
    shift
    : >"$work/replay.log"
    play "$@" || status=$?
    [ "$status" = 2 ] || fail "'$*' ended in $status"
    in_log "$text"
}

# Files of what the scheduler has of the last replay, once the agents of both sides have reported COUNT requests.
record() {
    run=$(sed -n 's/.*"run": "\([0-9a-f]*\)".*/\1/p' "$work/figures.json")
    wait_for 30 has_reported "$1" || fail "not $1 requests were reported: $(cat "$work/record.log" "$work/played.kvtrace")"
}
has_reported() {
    # A busy scheduler may answer too late.
    tool trace record --scheduler "$scheduler" --plain-ids --output "$work/all.kvtrace" >"$work/record.log" 2>&1 ||
        return 1
    grep -v '"transfer"' "$work/all.kvtrace" >"$work/played.kvtrace"
    grep "replay-$run-" "$work/all.kvtrace" >>"$work/played.kvtrace"
    ! grep "replay-$run-" "$work/all.kvtrace" | grep -q '"outcome":"live"' &&
        [ "$(of_side source)" -ge "$1" ] && [ "$(of_side target)" -ge "$1" ]
}
# Requests that an agent of that side has reported.
of_side() { grep "\"$1\":{\"agent\":" "$work/played.kvtrace" | grep -o "replay-$run-[0-9]*" | sort -u | wc -l; }

# is REQUEST SOURCE TARGET TEXT…: it went between those agents, and its record has each text.
is() {
    request=$1 source=$(number_of "$2") target=$(number_of "$3")
    shift 3
    for text in "\"source\":{\"agent\":$source," "\"target\":{\"agent\":$target," "$@"; do
        grep "replay-$run-$request\"" "$work/played.kvtrace" | grep -qF -- "$text" ||
            fail "request $request has no $text: $(grep "replay-$run-$request\"" "$work/played.kvtrace")"
    done
}
number_of() { sed -n "s/.*\"number\":\([0-9]*\),\"name\":\"$1\".*/\1/p" "$work/played.kvtrace"; }

# journal_has TEXT: a line of the journal.
journal_has() { grep -q -- "$1" "$work/journal" || fail "the journal has no $1"; }

cat >"$work/head" <<'END'
{"kvtrace":{"version":1,"start_us":1795773600000000}}
{"agent":{"number":0,"name":"east","role":"source","rails":[{"name":"a"}]}}
{"agent":{"number":1,"name":"north","role":"target"}}
{"agent":{"number":2,"name":"west","role":"source"}}
{"agent":{"number":3,"name":"south","role":"target"}}
{"geometry":{"number":0,"model":"m","layers":8,"groups":[{"kind":"full","layers":8,"page_tokens":16}]}}
END

# Request 0 is a request alone. 1 and 2 are two ranks of one request. 3 has a priority and a deadline. The target
# cancels 4, and the source 5, after 2 s: both sides of each have met then. 6 skips a half, and 7 all. The target's
# table of 8 spans more than the pool.
# pieces: runs that both sides have × 8 layers × K and V.
cat "$work/head" - >"$work/recorded.kvtrace" <<'END'
{"request":{"id":"alone","at_us":0,"input_tokens":700,"source":2,"target":1,"blocks":[7,8]}}
{"request":{"id":"a","at_us":900,"input_tokens":640,"source":0,"target":1,"blocks":[7,9]}}
{"transfer":{"id":"01","request":"a","at_us":1000,"tokens":640,"pieces":32,"outcome":"done","source":{"agent":0,"pages":[{"runs":[[100,20],[300,20]]}]},"target":{"agent":3,"pages":[{"runs":[[50,40]]}]}}}
{"transfer":{"id":"02","request":"a","at_us":1001,"tokens":640,"pieces":48,"outcome":"done","source":{"agent":2,"pages":[{"runs":[[0,40]]}]},"target":{"agent":1,"pages":[{"runs":[[10,10],[5,5],[30,25]]}]}}}
{"transfer":{"id":"03","request":"b","at_us":2000,"tokens":640,"pieces":16,"priority":-3,"deadline_us":30000000,"outcome":"done","source":{"agent":0,"pages":[{"runs":[[0,40]]}]},"target":{"agent":1,"pages":[{"runs":[[0,40]]}]}}}
{"transfer":{"id":"04","request":"c","at_us":3000,"tokens":640,"cancelled_us":2000000,"outcome":"cancelled","reason":"cancelled","source":{"agent":0,"pages":[{"runs":[[0,20],[40,20]]}]},"target":{"agent":1,"stages_us":{"failing":2000010},"pages":[{"runs":[[0,40]]}]}}}
{"transfer":{"id":"05","request":"d","at_us":4000,"tokens":640,"outcome":"cancelled","reason":"cancelled","source":{"agent":2,"stages_us":{"ended":2010000}},"target":{"agent":3,"stages_us":{"ended":2011000}}}}
{"transfer":{"id":"06","request":"e","at_us":5000,"tokens":640,"skip_tokens":320,"pieces":32,"outcome":"done","source":{"agent":0,"pages":[{"runs":[[0,40]]}]},"target":{"agent":3,"pages":[{"runs":[[200,20],[400,5],[420,15]]}]}}}
{"transfer":{"id":"07","request":"f","at_us":6000,"tokens":640,"skip_tokens":640,"outcome":"done","source":{"agent":2},"target":{"agent":1}}}
{"transfer":{"id":"08","request":"g","at_us":7000,"tokens":640,"pieces":48,"outcome":"done","source":{"agent":2,"pages":[{"runs":[[3,40]]}]},"target":{"agent":3,"pages":[{"runs":[[5,10],[1000000,10],[70000000,20]]}]}}}
END

# as_recorded EAST WEST NORTH SOUTH: the agents here that stand for those.
as_recorded() {
    expect transfers 9
    expect verified 7
    expect cancelled 2
    expect failed 0
    expect bytes_wrong 0
    expect pages_written_late 0
    expect page_tables_otherwise 0
    [ "$(figure bytes)" = "$(figure bytes_verified)" ] || fail "not every byte was verified"
    record 9
    is 0 "$2" "$3" '"outcome":"done"' '"tokens":700'
    is 1 "$1" "$4" '"outcome":"done"' '"pieces":32,'
    is 2 "$2" "$3" '"outcome":"done"' '"pieces":48,'
    is 3 "$1" "$3" '"outcome":"done"' '"pieces":16,'
    is 4 "$1" "$3" '"outcome":"cancelled"' 'by the target engine'
    is 5 "$2" "$4" '"outcome":"cancelled"' 'by the source engine'
    is 6 "$1" "$4" '"outcome":"done"' '"skip_tokens":320,' '"pieces":32,'
    is 7 "$2" "$3" '"outcome":"done"' '"skip_tokens":640,'
    is 8 "$2" "$4" '"outcome":"done"' '"pieces":48,'
    ! grep "replay-$run-7\"" "$work/played.kvtrace" | grep -q '"bytes"' || fail "bytes moved of a prefix that was all there"
    journal_has '"what": "opened", "request": 3, .*"priority": -3}'
}

echo "== as recorded"
play --trace "$work/recorded.kvtrace" --speed 1 || fail "the replay ended in $?"
in_log "recorded.kvtrace: it has no footer: it was cut behind line 16"
as_recorded prefill-0 prefill-1 decode-0 decode-1
expect page_tables_recorded 12

echo "== by name, with no waiting"
east=west= west=east= north=south= south=north=
play --trace "$work/recorded.kvtrace" --speed max || fail "the replay ended in $?"
as_recorded prefill-1 prefill-0 decode-1 decode-0

echo "== what was recorded of a replay"
# With two records of each transfer that was cancelled before both sides had met.
cp "$work/played.kvtrace" "$work/again.kvtrace"
east=prefill-0= west=prefill-1= north=decode-0= south=decode-1=
# Of those that ended well: their pieces, in any order.
pieces_of() { sed -n '/"outcome":"done"/s/.*"pieces":\([0-9]*\).*/\1/p' "$1" | sort -n | tr '\n' ' '; }
play --trace "$work/again.kvtrace" --speed 1 || fail "the replay ended in $?"
expect transfers 9
expect cancelled 2
expect failed 0
expect page_tables_otherwise 0
[ "$(figure page_tables_recorded)" -ge 12 ] || fail "only $(figure page_tables_recorded) page tables lay as recorded"
run=$(sed -n 's/.*"run": "\([0-9a-f]*\)".*/\1/p' "$work/figures.json")
# A cancel may come before a side has opened: then that side reports nothing.
same_pieces() { has_reported 7 && [ "$(pieces_of "$work/played.kvtrace")" = "$(pieces_of "$work/again.kvtrace")" ]; }
wait_for 30 same_pieces ||
    fail "pieces are $(pieces_of "$work/played.kvtrace"), and were $(pieces_of "$work/again.kvtrace")"

echo "== wrong options"
refused "'prefill-0', but the trace has no prefill-agent" --trace "$work/recorded.kvtrace"
east='' west='' north='' south=''
refused "2 times and --source-socket 3" --trace "$work/recorded.kvtrace" --source-socket /other
refused "needs --agent-pids of all 4 agents, and 1 are given" --trace "$work/recorded.kvtrace" --faults agents --agent-pids 2

echo "== in turn"
play --format mooncake --requests 40 --no-prefix-cache || fail "the replay ended in $?"
expect verified 40
[ "$(grep -c '^      "transfers": 20,$' "$work/figures.json")" = 4 ] || fail "the agents had not 20 transfers each"

echo "== fewer agents"
: >"$work/replay.log"
source_agent=127.0.0.1:$(cat "$work/prefill-1.port")
ln "$work/prefill-1.sock" "$work/source.sock"
ln "$work/decode-1.sock" "$work/target.sock"
replay --trace "$work/recorded.kvtrace" --format kvtrace || fail "the replay ended in $?"
in_log "more prefill-agents than there are here: 1 of them"
in_log "more decode-agents than there are here: 1 of them"
expect verified 7

echo "== times of layers"
# Both at once: the first layer of each comes long before the last one of the other.
times='"layers_us":[[200000,0],[600000,0],[1000000,0],[1400000,0]]'
cat "$work/head" - >"$work/times.kvtrace" <<END
{"transfer":{"id":"01","request":"a","at_us":0,"tokens":640,"outcome":"done","source":{"agent":0,$times},"target":{"agent":1}}}
{"transfer":{"id":"02","request":"b","at_us":0,"tokens":640,"outcome":"done","source":{"agent":0,$times},"target":{"agent":1}}}
END
# of_transfer REQUEST STAGE: microseconds after its opening.
of_transfer() { grep "replay-$run-$1\"" "$work/played.kvtrace" | sed -n "s/.*\"$2\":\([0-9]*\).*/\1/p"; }
# layers_keep_their_times: false where a loaded host let them come otherwise.
layers_keep_their_times() {
    play --trace "$work/times.kvtrace" --speed 1 || fail "the replay ended in $?"
    expect verified 2
    record 2
    for request in 0 1; do
        first=$(of_transfer $request first_ready) last=$(of_transfer $request last_ready)
        [ -n "$first" ] && [ -n "$last" ] || fail "request $request has no times of layers"
        # 0.2 s for the way from the router to the agent, which counts from the opening.
        [ "$first" -lt $((1000000 * patience)) ] && [ "$last" -ge 1200000 ] || return 1
    done
}
until_met 5 layers_keep_their_times || fail "layers were ready from $first to $last us"
expect_late() { [ "$(figure start_late_ms.count)" = "$1" ] || fail "the lateness of $1 starts is not there"; }
expect_late 2

echo "== faults"
slow='"layers_us":[[20000,0],[2000000,0]]'
cat "$work/head" - >"$work/faults.kvtrace" <<END
{"transfer":{"id":"01","request":"a","at_us":0,"tokens":640,"outcome":"done","source":{"agent":0,$slow},"target":{"agent":1}}}
{"transfer":{"id":"02","request":"b","at_us":0,"tokens":640,"outcome":"done","source":{"agent":2,$slow},"target":{"agent":3}}}
{"fault":{"at_us":400000,"agent":0,"rail":0,"kind":"rail_lost"}}
{"fault":{"at_us":500000,"agent":3,"kind":"engine_ended"}}
{"fault":{"at_us":600000,"for_us":300000,"agent":1,"kind":"agent_silent"}}
{"transfer":{"id":"03","request":"c","at_us":700000,"tokens":640,"outcome":"done","source":{"agent":2},"target":{"agent":3}}}
END
# played KIND COUNT: faults that were played, of that kind.
played() { [ "$(figure "faults_played.$1")" = "$2" ] || fail "$1 was played '$(figure "faults_played.$1")' times"; }
left_out() { [ "$(figure "faults_not_played.$1")" = "$2" ] || fail "$1 was left out '$(figure "faults_not_played.$1")' times"; }
play --trace "$work/faults.kvtrace" --speed 1 || fail "the replay ended in $?"
expect verified 2
expect failed 0
expect ended_by_faults 1
played engine_ended 1
left_out rail_lost 1
left_out agent_silent 1
play --trace "$work/faults.kvtrace" --speed 1 --faults agents \
    --agent-pids "$pid_prefill_0,$pid_prefill_1,$pid_decode_0,$pid_decode_1" || fail "the replay ended in $?"
# Whether the request at the stopped agent lives through that is the host's to say.
expect failed 0
[ "$(figure ended_by_faults)" -ge 1 ] || fail "the fault met no request"
[ $(($(figure verified) + $(figure ended_by_faults))) = 3 ] || fail "requests were lost"
played engine_ended 1
played agent_silent 1
left_out rail_lost 1
play --trace "$work/faults.kvtrace" --faults none || fail "the replay ended in $?"
expect verified 3
left_out engine_ended 1

# Nothing starts a killed agent again: the replay ends with it. What was on its way there was struck.
sed -e '/"id":"03"/d' -e 's/{"at_us":600000.*/{"at_us":600000,"agent":3,"kind":"agent_ended"}}/' -e '/engine_ended/d' \
    "$work/faults.kvtrace" >"$work/killed.kvtrace"
play --trace "$work/killed.kvtrace" --speed 1 --faults agents \
    --agent-pids "$pid_prefill_0,$pid_prefill_1,$pid_decode_0,$pid_decode_1" || fail "the replay ended in $?"
expect verified 1
expect ended_by_faults 1
played agent_ended 1
wait_for 5 not is_running "$pid_decode_1" || fail "the agent was not killed"
echo "e2e.replay_placement: passed"
