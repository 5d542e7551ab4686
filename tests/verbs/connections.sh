#!/bin/sh
# Goal: a card keeps no more idle queue pairs than --connections, at both ends, and no transfer notices.
# Method: a prefill-agent with one rail, a bound of 2 and three decode-agents. They fetch one after the other,
# then side by side. The kernel counts queue pairs all the while.
set -eu
. "$KVRAIL_ROOT_DIR/tests/verbs/agents.sh"
bound=2
peers="5 6 7"
trap 'touch "$work/watched"; stop_programs' EXIT

# queue_pairs RAIL: those of the agent that has it; the kernel has one of its own.
queue_pairs() { rdma resource show qp | grep "^link rxe$1/" | grep -c " pid " || true; }

watch_pairs() {
    until [ -e "$work/watched" ]; do
        queue_pairs 1 >>"$work/pairs"
    done
}

# most: of queue pairs, since the last call.
most() {
    sort -n "$work/pairs" | tail -n 1
    : >"$work/pairs"
}

# decode RAIL: the decode-agent that has it.
decode() {
    # shellcheck disable=SC2046,SC2086 # lists of options
    start "decode$1" "$bin/decode-agent" --name "decode-$1" $(credentials decode "decode-$1") --engine-socket "$work/target$1.sock" \
        --provider verbs $(rail_options "$1") $decode_options --scheduler "$scheduler" --state-dir "$work/decode$1"
    await "decode$1" "$work/target$1.sock"
}

# fetch RAIL REQUESTS SEED: by that decode-agent's engine; every byte is verified, nothing is posted twice.
fetch() {
    # shellcheck disable=SC2046 # variables
    env $(tool_environment) "$bin/kvrail" replay --source-socket "$work/source.sock" --target-socket "$work/target$1.sock" \
        --source-agent "$source_agent" --trace "$trace" --format azure --requests "$2" --seed "$3" \
        --kv-bytes-per-token 512 --layers 4 --pool-bytes 8M --json "$work/fetch$1.json" >"$work/fetch$1.log" 2>&1 || return 1
    grep -q "^  \"verified\": $2,*$" "$work/fetch$1.json" && grep -q '^  "retries": 0,*$' "$work/fetch$1.json"
}

targets_have() {
    count=0
    for peer in $peers; do
        count=$((count + $(queue_pairs "$peer")))
    done
    [ "$count" = "$1" ]
}

# Both ends have as many, and no more than the bound.
comes_under() {
    open=$(queue_pairs 1)
    [ "$open" -le "$bound" ] && targets_have "$open"
}

# has_closed COUNT: the agents have reported so many.
has_closed() {
    closed=$(metrics | awk '/^kvrail_rail_connections_closed_total[{]/ { sum += $2 } END { print sum + 0 }')
    [ "$closed" -ge "$1" ]
}

need kvrail kvrail-scheduler prefill-agent decode-agent
command -v rdma >/dev/null || { echo "there is no rdma (iproute2)" && exit 77; }
start_scheduler
# The agents' own bounds of silence: with the VM's, a pause of its processor looks like a silent peer, and a
# transfer posts again.
decode_options=""
prefill_rails=$(rail_options 1) prefill_options="--connections $bound"
start_prefill
for peer in $peers; do
    decode "$peer"
done
write_trace 20
watch_pairs &
started_pids="$started_pids $!"

for round in 1 2; do
    for peer in $peers; do
        fetch "$peer" 3 "$round$peer" || fail "in round $round, rail $peer: $(tail -n 5 "$work/fetch$peer.log")"
    done
done
wait_for 15 comes_under || fail "after the rounds, the prefill-agent has $open queue pairs, its peers $count"
alone=$(most)
[ "$alone" -ge 1 ] || fail "no queue pair was counted"
[ "$alone" -le "$bound" ] || fail "the prefill-agent had $alone queue pairs"
wait_for 15 has_closed 4 || fail "the scheduler knows of $closed closed connections"

fetching=
for peer in $peers; do
    fetch "$peer" 10 "9$peer" &
    fetching="$fetching $!"
done
for pid in $fetching; do
    wait "$pid" || fail "side by side, a fetch lost something: $(tail -n 5 "$work"/fetch?.log)"
done
together=$(most)
wait_for 15 comes_under || fail "at rest, the prefill-agent has $open queue pairs, its peers $count"
echo "within: at most $alone queue pairs one after the other, $together side by side, $open at rest"
