# shellcheck shell=sh disable=SC2034,SC2154 # shared with programs.sh and the test
# Cables for tests that cut them: two network namespaces, one for each agent, joined by veth pairs.
# Rail i (from 1) is 10.78.<i>.1 at the prefill-agent and 10.78.<i>.2 at the decode-agent; cable 9 is
# for the control channel and is never cut. Sourced after programs.sh; needs root and iproute2.
source_space=kvrail-s-$$
target_space=kvrail-t-$$

remove_cables() {
    ip netns del "$source_space" 2>/dev/null || true # what is in it goes with it
    ip netns del "$target_space" 2>/dev/null || true
}

# For `fail`: the control connections as TCP sees them, and what has happened to TCP at each end.
tell_more() {
    for space in "$source_space" "$target_space"; do
        echo "--- TCP in $space:"
        ip netns exec "$space" ss -tino '( src 10.78.9.0/24 or dst 10.78.9.0/24 )' || true
        ip netns exec "$space" nstat -az 2>/dev/null |
            grep -E 'Timeout|Retrans|LostRetransmit|Abort|Drop|Prune|Backlog' | grep -v ' 0  ' || true
        ip -n "$space" neigh show dev rail9 || true
    done
}

lay_cable() {
    ip link add "kvs$1-$$" type veth peer name "kvt$1-$$"
    for end in s t; do
        space=$([ $end = s ] && echo "$source_space" || echo "$target_space")
        ip link set "kv$end$1-$$" netns "$space"
        ip -n "$space" link set "kv$end$1-$$" name "rail$1"
        ip -n "$space" addr add "10.78.$1.$([ $end = s ] && echo 1 || echo 2)/24" dev "rail$1"
        ip -n "$space" link set "rail$1" up
    done
}

# lay_cables COUNT; a machine that does not allow it skips the test.
lay_cables() {
    if [ "$(id -u)" != 0 ] || ! command -v ip >/dev/null; then
        echo "cables need root and iproute2" >&2
        exit 77
    fi
    if ! ip netns add "$source_space" || ! ip netns add "$target_space"; then
        echo "no network namespaces here" >&2
        remove_cables
        exit 77
    fi
    trap 'stop_programs; remove_cables' EXIT
    for space in "$source_space" "$target_space"; do
        ip -n "$space" link set lo up
    done
    rail_count=$1
    for cable in $(seq "$1") 9; do
        lay_cable "$cable" || exit 77
    done
}

# need_filter: skips the test where there is no nft.
need_filter() {
    PATH=$PATH:/usr/sbin:/sbin
    command -v nft >/dev/null || { echo "there is no nft" >&2; exit 77; }
}

# cap_cables RATE [BURST]: of each rail, in either direction; needs tc. BURST is what a rail that rested lets through
# at once.
cap_cables() {
    command -v tc >/dev/null || exit 77
    for space in "$source_space" "$target_space"; do
        for cable in $(seq "$rail_count"); do
            tc -n "$space" qdisc add dev "rail$cable" root tbf rate "$1" burst "${2:-256kb}" latency 20ms ||
                exit 77
        done
    done
}

# cut_cable RAIL [SPACE]: at that end, the source's if none is named. The other end gets no sign, and its
# packets are lost.
cut_cable() { ip -n "${2:-$source_space}" link set "rail$1" down; }
mend_cable() { ip -n "${2:-$source_space}" link set "rail$1" up; }

# Bytes that left the source over a rail so far.
rail_bytes() {
    ip netns exec "$source_space" cat "/sys/class/net/rail$1/statistics/tx_bytes"
}

# await_bytes RAIL: until another MiB has left over it, while the replay in the background runs.
await_bytes() {
    left_before=$(rail_bytes "$1")
    wait_for 30 has_sent "$1" $((left_before + 1048576)) || fail "rail $1 moves nothing"
    is_running "$replay_pid" || fail "the replay ended before rail $1 moved anything"
}

has_sent() {
    [ "$(rail_bytes "$1")" -ge "$2" ] || not is_running "$replay_pid"
}

rails_of() {
    for cable in $(seq "$rail_count"); do
        echo "--rail 10.78.$cable.$1"
    done
}

# Both agents, each in its namespace; engines reach them by their sockets.
start_cabled_agents() {
    start_cabled_prefill
    start_cabled_decode
}

# shellcheck disable=SC2046,SC2086 # lists of options
start_cabled_prefill() {
    rm -f "$work/prefill.port" "$work/source.sock"
    start prefill ip netns exec "$source_space" "$bin/prefill-agent" --name prefill-0 \
        $(credentials prefill prefill-0) \
        --engine-socket "$work/source.sock" --listen 10.78.9.1:0 --port-file "$work/prefill.port" \
        $(rails_of 1) --heartbeat "${heartbeat:-300ms}" --quiet 300ms ${prefill_options:-}
    prefill_pid=$started
    await prefill "$work/prefill.port"
    await prefill "$work/source.sock"
    source_agent=10.78.9.1:$(cat "$work/prefill.port")
}

# shellcheck disable=SC2046,SC2086 # lists of options
start_cabled_decode() {
    rm -f "$work/target.sock"
    start decode ip netns exec "$target_space" "$bin/decode-agent" --name decode-0 \
        $(credentials decode decode-0) \
        --engine-socket "$work/target.sock" $(rails_of 2) --heartbeat "${heartbeat:-300ms}" --quiet 300ms \
        ${decode_options:-}
    decode_pid=$started
    await decode "$work/target.sock"
}
