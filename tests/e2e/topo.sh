#!/bin/sh
# Goal: `kvrail topo` shows the groups of this host, and of hosts that a file describes; what is odd is
# said in both forms.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail
says() {
    grep -q -- "$2" "$1" || fail "$(basename "$1") does not say '$2': $(cat "$1")"
}
# topo_of HOST OPTION...: of a host in tests/unit/topology.
topo_of() {
    awk -f "$KVRAIL_ROOT_DIR/tests/support/host_xml.awk" \
        "$KVRAIL_ROOT_DIR/tests/unit/topology/$1.host" >"$work/$1.xml"
    host=$1
    shift
    "$bin/kvrail" topo --xml "$work/$host.xml" "$@"
}

"$bin/kvrail" topo >"$work/here"
says "$work/here" '^tcp .* lo '
says "$work/here" '^shm '
"$bin/kvrail" topo --provider tcp --json >"$work/here.json"
says "$work/here.json" '"provider_path"'
says "$work/here.json" '"groups": \['
says "$work/here" '^tcp .* staged  dmabuf, hmem: its provider moves host memory only$'
says "$work/here.json" '"path": "staged"'

topo_of p5 >"$work/p5"
[ "$(grep -c '^GPU ' "$work/p5")" = 8 ] || fail "a p5 has 8 GPUs: $(cat "$work/p5")"
says "$work/p5" '^GPU 7 0000:c0:00.0, NUMA node 1, cores 84-95,180-191: .*rdmap196s0 (0000:c4:00.0, efa, 100 Gb/s, switch)$'
topo_of p5 --json >"$work/p5.json"
[ "$(grep -c '"gpu": [0-7],' "$work/p5.json")" = 8 ] || fail "a p5 has 8 groups"
[ "$(grep -c '"speed_gbps": 100.0' "$work/p5.json")" = 32 ] || fail "a p5 has 32 cards"
says "$work/p5.json" '"warnings": \[\]'
topo_of two_sockets >"$work/two"
says "$work/two" '^NUMA node 1, cores 16-31: mlx5_1 (0000:b1:00.0, verbs, 400 Gb/s)$'
topo_of odd >"$work/odd"
says "$work/odd" '^What is odd:$'
says "$work/odd" '^  the link of card mlx5_0 (0000:11:00.0) is down'
topo_of vm --json >"$work/vm.json"
says "$work/vm.json" '"groups": \[\],'
says "$work/vm.json" 'there is no network card'

status=0
"$bin/kvrail" topo --xml "$work/nowhere.xml" 2>"$work/nowhere" || status=$?
[ $status = 1 ] || fail "topo of no file ended in $status"
says "$work/nowhere" 'nowhere.xml cannot be read'
echo "topo: this host and 4 others, 1 passed, 0 failed"
