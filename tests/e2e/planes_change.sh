#!/bin/sh
# Goal: no request fails when rails change planes under way, or when a pair of rails loses one way, as long as
# another pair works; rails are used again where they find a partner. Method: agents in two network namespaces
# joined by four veth pairs. Packet filters at both ends let pass what pairs that are connected send. Replays
# side by side check every byte while a rail moves to another plane, to none, and back, while either way of a
# pair is lost, and while two cables are crossed. At last the rails have IPv6 addresses.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
need kvrail prefill-agent decode-agent
need_filter
heartbeat=1s # the agents must not lose each other where they wait for a core
lay_cables 4
cap_cables 400mbit

# ---- what is connected -------------------------------------------------------------------------

# address RAIL END, as in cables.sh
address() { echo "10.78.$1.$2"; }
rails_of() {
    for cable in $(seq 4); do
        echo "--rail $(address "$cable" "$1")"
    done
}

# isolate FAMILY SPACE
isolate() {
    {
        echo "table $1 planes {"
        echo "set ways { type $([ "$1" = ip ] && echo ipv4_addr . ipv4_addr || echo ipv6_addr . ipv6_addr); counter; }"
        echo 'chain input {'
        echo 'type filter hook input priority 0; policy accept;'
        echo "iifname rail9 accept"
        echo "meta l4proto tcp $1 saddr . $1 daddr @ways accept" # it counts what it finds
        echo "meta l4proto tcp $1 saddr $([ "$1" = ip ] && echo 10.78.0.0/16 || echo fd78::/16) drop"
        echo '}'
        echo '}'
    } | ip netns exec "$2" nft -f - || { echo "nft filters nothing here" >&2; exit 77; }
}

# there add|delete RAIL RAIL: what the source's rail sends to the target's; back: what the target's sends.
there() {
    ip netns exec "$target_space" nft "$1" element $family planes ways "{ $(address "$2" 1) . $(address "$3" 2) }"
}
back() {
    ip netns exec "$source_space" nft "$1" element $family planes ways "{ $(address "$3" 2) . $(address "$2" 1) }"
}
connect() { there add "$1" "$2" && back add "$1" "$2"; }
sever() { there delete "$1" "$2" && back delete "$1" "$2"; }

# isolate_all FAMILY: each rail reaches the one with its number.
isolate_all() {
    family=$1
    isolate "$family" "$source_space"
    isolate "$family" "$target_space"
    for cable in 1 2 3 4; do
        connect $cable $cable
    done
}

# ---- what becomes of a pair --------------------------------------------------------------------

# arrived RAIL RAIL: bytes that the filter let through.
arrived() {
    ip netns exec "$target_space" nft list set $family planes ways | tr ',' '\n' |
        sed -n "s/.*$(address "$1" 1) \. $(address "$2" 2) counter packets [0-9]* bytes \([0-9]*\).*/\1/p"
}
has_arrived() { [ "$(arrived "$1" "$2")" -ge "$3" ]; }

# carries RAIL RAIL…: until two more MiB have arrived from each to the next.
carries() {
    while [ $# -ge 2 ]; do
        more=$(($(arrived "$1" "$2") + 2097152))
        wait_for 40 has_arrived "$1" "$2" $more || fail "rail $1 writes nothing to rail $2: $(pairs)"
        shift 2
    done
    echo "$(date +%T) they carry"
}

pairs() { "$bin/kvrail" topo --agent "$work/source.sock" --peer decode-0 2>&1 || true; }
is_broken() {
    "$bin/kvrail" topo --agent "$work/source.sock" 2>/dev/null |
        grep -qE "^  rail $(($1 - 1)) .* (does not reach|is in doubt with|is slow to) $(($2 - 1)) of decode-0"
}
breaks() {
    wait_for 15 is_broken "$1" "$2" || fail "rail $1 does not know that it lost rail $2: $(pairs)"
    echo "$(date +%T) broken: $1 $2"
}

stop_agents() {
    for pid in $decode_pid $prefill_pid; do
        kill "$pid"
        wait "$pid" || fail "an agent ended in $?"
    done
}
beside_options="--kv-bytes-per-token 1k --pool-bytes 64M --no-prefix-cache --deadline $((30 * patience))s"

# ---- the networks of the addresses are the planes -------------------------------------------------

isolate_all ip
start_cabled_agents
replays_beside 3
carries 1 1 2 2 3 3 4 4
sever 2 2
connect 1 2 # a plane with a rail of its own
breaks 2 2
sever 1 2 # none
carries 1 1 3 3 4 4
connect 2 2
back delete 3 3
breaks 3 3
carries 2 2 1 1 4 4
back add 3 3
there delete 4 4
breaks 4 4
carries 2 2 1 1 3 3
connect 4 4
carries 4 4
finish_replays_beside
stop_agents

# A way is lost from the start on.
for way in there back; do
    $way delete 3 3
    start_cabled_agents
    replay --requests 10 --no-prefix-cache || fail "$way: the replay ended in $?"
    expect verified 10
    expect bytes_wrong 0
    stop_agents
    $way add 3 3
done

# ---- planes that nothing names: two cables are crossed ------------------------------------------

for end in 1 2; do
    space=$([ $end = 1 ] && echo "$source_space" || echo "$target_space")
    for cable in 1 2 3 4; do
        ip -n "$space" addr del "10.78.$cable.$end/24" dev "rail$cable"
        ip -n "$space" addr add "10.78.$cable.$end/32" dev "rail$cable"
        ip -n "$space" route add "10.78.$cable.0/24" dev "rail$cable" src "10.78.$cable.$end"
    done
done
start_cabled_agents
replays_beside 3
carries 1 1 2 2
sever 1 1
sever 2 2
connect 1 2
connect 2 1
breaks 1 1
carries 1 2 2 1 3 3 4 4
sever 1 2
sever 2 1
connect 1 1
connect 2 2
carries 1 1 2 2
finish_replays_beside
stop_agents

# ---- IPv6 --------------------------------------------------------------------------------------

address() { echo "fd78:0:0:$1::$2"; }
for end in 1 2; do
    space=$([ $end = 1 ] && echo "$source_space" || echo "$target_space")
    for cable in 1 2 3 4; do
        ip -n "$space" addr add "$(address $cable $end)/64" dev "rail$cable" nodad || exit 0
    done
done
isolate_all ip6
rails_of() {
    for cable in $([ "$1" = 1 ] && echo 1 2 3 4 || echo 3 1 4 2); do
        echo "--rail $(address "$cable" "$1")"
    done
}
start_cabled_agents
replay --requests 10 --no-prefix-cache || fail "IPv6: the replay ended in $?"
expect verified 10
expect bytes_wrong 0
for cable in 1 2 3 4; do
    has_arrived $cable $cable 1048576 || fail "IPv6: rail $cable carried nothing: $(pairs)"
done
