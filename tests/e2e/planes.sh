#!/bin/sh
# Goal: rails of two hosts find each other by what they are connected to, whatever their order and whichever of
# them are missing. Method: agents in two network namespaces joined by four veth pairs, each with a subnet of its
# own. A packet filter isolates them, because without one the kernel answers for every address on every card. The
# target has its rails in all 24 orders, then three of them, then two. Then each card has two networks, some of the
# target's in another order than the source's; at last no address has a network, and labels name the planes. Replays
# check every byte, and each rail with a partner must have carried some.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
need kvrail prefill-agent decode-agent
need_filter
heartbeat=1s # the agents must not lose each other where they wait for a core
lay_cables 4
cap_cables 400mbit

isolate() {
    ip netns exec "$1" nft add table ip planes || { echo "nft filters nothing here" >&2; exit 77; }
    {
        echo 'table ip planes {'
        echo 'chain input {'
        echo 'type filter hook input priority 0; policy accept;'
        for cable in 1 2 3 4; do
            for way in saddr daddr; do
                echo "iifname rail$cable ip $way != { 10.78.$cable.0/24, 10.79.$cable.0/24 } drop"
            done
        done
        echo '}'
        echo '}'
    } | ip netns exec "$1" nft -f - || fail "the packet filter was not made"
}
isolate "$source_space"
isolate "$target_space"

# rails_of END: options of the agent that has the addresses with that end.
rails_of() {
    [ "$1" = 1 ] && echo "$source_rails" && return
    for cable in $target_order; do
        echo "--rail $(card_of "$cable")$(label_of "$cable")"
    done
}
card_of() { echo "10.78.$1.2"; }
source_rails="--rail 10.78.1.1 --rail 10.78.2.1 --rail 10.78.3.1 --rail 10.78.4.1"
label_of() { :; }

stop_agent() {
    kill "$1"
    wait "$1" || fail "an agent ended in $?"
}

# round RAIL…: the target has these, in this order.
rounds=0
round() {
    target_order=$*
    start_cabled_decode
    before=
    for cable in "$@"; do
        before="$before $(rail_bytes "$cable")"
    done
    replay --requests 8 --no-prefix-cache --kv-bytes-per-token 512 --deadline 10s || fail "target's rails $*: the replay ended in $?"
    expect verified 8
    expect bytes_wrong 0
    for bytes in $before; do
        [ $(($(rail_bytes "$1") - bytes)) -gt 1048576 ] || fail "target's rails $target_order: rail $1 carried nothing"
        shift
    done
    stop_agent "$decode_pid"
    rounds=$((rounds + 1))
}

start_cabled_prefill
for a in 1 2 3 4; do
    for b in 1 2 3 4; do
        for c in 1 2 3 4; do
            for d in 1 2 3 4; do
                [ "$(printf '%s\n' $a $b $c $d | sort -u | wc -l)" = 4 ] || continue
                round $a $b $c $d
            done
        done
        [ $a -le $b ] || round $a $b
    done
    # shellcheck disable=SC2046 # three numbers
    round $(seq 4 | grep -v $a)
done
[ $rounds = 34 ] || fail "$rounds rounds, not 24 orders, 6 pairs and 4 threes"
stop_agent "$prefill_pid"

# Cards 1 and 2 of the target have their second network before the first.
for cable in 1 2 3 4; do
    ip -n "$source_space" addr add "10.79.$cable.1/24" dev "rail$cable"
    [ $cable -gt 2 ] || ip -n "$target_space" addr del "10.78.$cable.2/24" dev "rail$cable"
    ip -n "$target_space" addr add "10.79.$cable.2/24" dev "rail$cable"
    [ $cable -gt 2 ] || ip -n "$target_space" addr add "10.78.$cable.2/24" dev "rail$cable"
done
addresses_rails=$source_rails
source_rails="--rail rail1 --rail rail2 --rail rail3 --rail rail4"
card_of() { echo "rail$1"; }
start_cabled_prefill
round 2 3 1 4
round 3 1
stop_agent "$prefill_pid"
for cable in 1 2 3 4; do
    ip -n "$source_space" addr del "10.79.$cable.1/24" dev "rail$cable"
    ip -n "$target_space" addr del "10.79.$cable.2/24" dev "rail$cable"
done
source_rails=$addresses_rails
card_of() { echo "10.78.$1.2"; }

# An address of its own, and a route: the rails' networks say nothing.
for end in 1 2; do
    space=$([ $end = 1 ] && echo "$source_space" || echo "$target_space")
    for cable in 1 2 3 4; do
        ip -n "$space" addr del "10.78.$cable.$end/24" dev "rail$cable"
        ip -n "$space" addr add "10.78.$cable.$end/32" dev "rail$cable"
        ip -n "$space" route add "10.78.$cable.0/24" dev "rail$cable" src "10.78.$cable.$end"
    done
done
label_of() { echo "@plane-$1"; }
source_rails="$source_rails --plane rail1=plane-1,rail2=plane-2 --plane rail3=plane-3 --plane rail4=plane-4"
prefill_options="--other-planes never"
start_cabled_prefill
round 3 1 4 2
round 4 2
echo "$rounds rounds"
