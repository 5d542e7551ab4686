#!/bin/sh
# Goal: a stranger that reaches a rail's port ends an agent with 16 bytes. With kvrail-filter it does not get that
# far, from another host or as another user of this one. Replays beside it lose nothing. Rules go with the agent,
# and all of them with the filter, also when either is killed.
# Method: two network namespaces with cables; the stranger of tests/support at every port of a rail; the kernel's
# own list of rules.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
stranger=${1:?the program stranger}
first=9500 last=9503
somebody=61918
need kvrail-filter
for command in nft setpriv; do
    command -v $command >/dev/null || { echo "there is no $command here" >&2; exit 77; }
done
lay_cables 2
ip -n "$source_space" addr add 10.78.1.9/24 dev rail1 # of a host that is no peer
mkdir "$work/filter"
chown $somebody "$work/filter"
chmod 711 "$work"
cd "$work" # where libpsm2 leaves a file for each agent that crashes

# The filter has one capability and another user than the agents.
start_filter() {
    start filter ip netns exec "$target_space" setpriv --reuid $somebody --regid $somebody --clear-groups \
        --inh-caps=-all,+net_admin --ambient-caps=-all,+net_admin --bounding-set=-all,+net_admin --no-new-privs \
        "$bin/kvrail-filter" --socket "$work/filter/socket" --user "$(id -u)" --rail-ports $first-$last "$@"
    filter_pid=$started
}

start_filter_ready() {
    start_filter
    await filter "$work/filter/socket"
}

rules() { ip netns exec "$target_space" nft list table inet kvrail 2>/dev/null; }
elements() { rules | grep -c "10.78.*: jump agent" || true; }
has_elements() { [ "$(elements)" = "$1" ]; }

# knock WORD FROM COMMAND…: the stranger at every port of both rails, prefixed by the command. Each is
# answered by that word, unless it is "connected": then some are.
knock() {
    wanted=$1 from=$2 knocked=0
    shift 2
    for port in $(seq $first $last); do
        for rail in 1 2; do
            [ -z "$from" ] || [ $rail = 1 ] || continue
            # shellcheck disable=SC2086 # it may be none
            said=$(timeout 20 "$@" "$stranger" 10.78.$rail.2 "$port" $from 2>&1) || true
            [ "$said" != connected ] || knocked=$((knocked + 1))
            case $wanted in
            connected) ;;
            *) [ "$said" = "$wanted" ] || fail "port $port of rail $rail says '$said', not '$wanted'" ;;
            esac
        done
    done
}
from_elsewhere() { knock "$1" 10.78.1.9 ip netns exec "$source_space"; }
as_another_user() {
    knock "$1" "" ip netns exec "$target_space" setpriv --reuid 65534 --regid 65534 --clear-groups
}

# Without the filter.
decode_options="--rail-ports $first-$last"
start_cabled_agents
file_has "$work/decode.log" "any host or user that reaches them may connect" || fail "nothing warns of open rails"
from_elsewhere connected
[ "$knocked" -gt 0 ] || fail "the stranger reached no rail"
if wait_for 5 not is_running "$decode_pid"; then
    echo "a stranger has ended the agent, as expected of this libfabric"
else
    echo "this libfabric survives the stranger"
    kill "$decode_pid"
fi
wait "$decode_pid" 2>/dev/null || true
kill "$prefill_pid"
wait "$prefill_pid" || fail "the prefill-agent ended in $?"

# An agent that asks for a filter does not start without one.
rm -f "$work"/*.sock "$work"/*.port
status=0
# shellcheck disable=SC2046 # options
timeout 20 ip netns exec "$target_space" "$bin/decode-agent" --name lone $(credentials decode lone) --engine-socket "$work/lone.sock" \
    --rail 10.78.1.2 --rail-filter "$work/filter/socket" --rail-filter-required >"$work/out" 2>&1 || status=$?
[ $status = 1 ] || fail "without a filter the agent ended in $status"
grep -q 'cannot be reached' "$work/out" || fail "the reason is not in: $(cat "$work/out")"

start_filter_ready
# shellcheck disable=SC2034 # read by start_cabled_agents
decode_options="--rail-ports $first-$last --rail-filter $work/filter/socket --rail-filter-required"
start_cabled_agents
file_has "$work/decode.log" "closes them to all but authenticated peers" || fail "the agent does not say that it is filtered"
has_elements 2 || fail "not two ports are kept: $(rules)"
replay_in_background --requests 400 --progress --concurrency 8 --pool-bytes 256M --speed 30
await_progress
refused() { rules | sed -n 's/^.*packets \([0-9]*\) .*/\1/p' | awk '{ sum += $1 } END { print sum }'; }
[ "$(refused)" = 0 ] || fail "peers met a closed port: $(rules)"
from_elsewhere "no answer"
as_another_user refused
finish_replay
[ "$replay_status" = 0 ] || fail "the replay beside the stranger ended in $replay_status"
expect verified 400
is_running "$decode_pid" || fail "the decode-agent has ended"
[ "$(refused)" -gt 10 ] || fail "only $(refused) packets were counted: $(rules)"

# Endpoints that replace others are kept too. A fetch fails, as it should, until the decode-agent has noticed the
# loss of its peer.
losses() { grep -c ' is lost ' "$work/decode.log" || true; }
has_lost_more() { [ "$(losses)" -gt "$losses_before" ]; }
losses_before=$(losses)
kill -9 "$prefill_pid"
wait "$prefill_pid" 2>/dev/null || true
rm -f "$work/source.sock" "$work/prefill.port"
# shellcheck disable=SC2046 # options
start prefill ip netns exec "$source_space" "$bin/prefill-agent" --name prefill-0 $(credentials prefill prefill-0) \
    --engine-socket "$work/source.sock" --listen "$source_agent" --port-file "$work/prefill.port" \
    --rail 10.78.1.1 --rail 10.78.2.1 --heartbeat 300ms --quiet 300ms
prefill_pid=$started
await prefill "$work/source.sock"
wait_for 10 has_lost_more || fail "the decode-agent does not notice that its peer was killed"
replay --requests 40 || fail "after the prefill-agent's restart a replay ended in $?"
expect verified 40
from_elsewhere "no answer"

# The filter is killed: nothing stays, the agent goes on and says so. A filter that is back has all again.
kill -9 "$filter_pid"
wait "$filter_pid" 2>/dev/null || true
wait_for 5 not rules >/dev/null || fail "rules stay behind a killed filter: $(rules)"
wait_for 10 file_has "$work/decode.log" "Until it answers, any host or user" || fail "the agent does not warn"
replay --requests 40 || fail "without the filter a replay ended in $?"
rm -f "$work/filter/socket"
start_filter_ready
wait_for 10 file_has "$work/decode.log" "answers again" || fail "the agent does not come back to the filter"
from_elsewhere "no answer"
replay --requests 40 || fail "with the filter again a replay ended in $?"
expect verified 40

# One filter for a network namespace, and it needs its right.
start other ip netns exec "$target_space" "$bin/kvrail-filter" --socket "$work/other" --user 0
wait_for 10 not is_running "$started" || fail "a second filter runs"
file_has "$work/other.log" "another process has the table inet kvrail" || fail "the second filter gives no reason"
start other setpriv --bounding-set=-net_admin --inh-caps=-net_admin --ambient-caps=-all --reuid $somebody \
    --clear-groups "$bin/kvrail-filter" --socket "$work/filter/other" --user 0
wait_for 10 not is_running "$started" || fail "a filter runs without its right"
file_has "$work/other.log" "CAP_NET_ADMIN" || fail "the missing right is not named"

# The agent is killed: its rules go.
kill -9 "$decode_pid"
wait "$decode_pid" 2>/dev/null || true
wait_for 5 has_elements 0 || fail "rules stay behind a killed agent: $(rules)"
kill "$filter_pid"
wait "$filter_pid" || fail "SIGTERM ended the filter with $?"
[ -z "$(rules)" ] || fail "rules stay behind the filter"
echo "e2e.filter: passed"
