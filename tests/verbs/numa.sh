#!/bin/sh
# Goal: on a host with two NUMA nodes and a card on each, two rail groups form without an option. Each has a
# thread that runs on its card's node alone, and its memory lies there.
# Method: kvrail topo; two agents that find both cards, move something and are looked at in /proc;
# unit.rail_group_node, which looks where memory is.
set -eu
export KVRAIL_BIN_DIR="$KVRAIL_BUILD_DIR/bin"
provider=tcp
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"

# The VM's cards are virtio's, each on a PCI device that says where it lies; rails.sh makes the others.
cards=
for card in /sys/class/net/*/device; do
    [ -e "$card" ] || continue
    name=${card#/sys/class/net/}
    name=${name%%/*}
    node=$(cat "$(dirname "$(readlink -f "$card")")/numa_node")
    address=10.78.0.$((node + 1))
    ip addr replace "$address/24" dev "$name"
    ip link set "$name" up
    cards="$cards --rail $address"
done
[ "$(echo "$cards" | wc -w)" = 4 ] || fail "there are not two cards, but: $cards"

"$bin/kvrail" topo --provider tcp >"$work/topo"
for node in 0 1; do
    grep -Eq "^tcp .* 10\.78\.0\.$((node + 1)) +$node " "$work/topo" ||
        fail "topo does not say that a card is on node $node: $(cat "$work/topo")"
done

rails=$cards
start_all
for role in prefill decode; do
    grep -q '2 rails in 2 groups' "$work/$role.log" || fail "the $role-agent has not two groups"
done
replay --requests 2 --pool-bytes 16M --kv-bytes-per-token 1k || fail "a replay ended in $?"
expect verified 2

# Each node has one processor here.
for role in prefill decode; do
    eval "pid=\$${role}_pid"
    allowed=
    for task in /proc/"$pid"/task/*; do
        [ "$(cat "$task/comm")" = kvr-rails ] || continue
        allowed="$allowed $(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$task/status")"
    done
    cores=$(for core in $allowed; do echo "$core"; done | sort | paste -s -d ' ')
    [ "$cores" = "$(cat /sys/devices/system/node/node0/cpulist) $(cat /sys/devices/system/node/node1/cpulist)" ] ||
        fail "rail threads of the $role-agent may run on: $allowed"
done

"$KVRAIL_BUILD_DIR/tests/unit.rail_group_node" >"$work/node.log" 2>&1 ||
    fail "memory is not where it should be"
grep -q '^\[       OK \]' "$work/node.log" || fail "where memory is was not looked at"
