#!/bin/sh
# Goal: `kvrail topo` shows the groups of this host, and of hosts that a file describes; what is odd is
# said in both forms. Output of any subcommand that is lost ends it with a failure.
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
says "$work/here" '^local '
"$bin/kvrail" topo --provider tcp --json >"$work/here.json"
says "$work/here.json" '"provider_path"'
says "$work/here.json" '"groups": \['
says "$work/here" '^tcp .* staged  dmabuf, hmem: its provider moves host memory only$'
says "$work/here.json" '"path": "staged"'

# GPUs as the driver shows them: one that needs a flush behind writes of cards, and one without any.
driver="$bin/../tests/fake_cuda"
if [ -e "$driver/libcuda.so.1" ]; then
    export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    FAKE_CUDA_GPUS=2 FAKE_CUDA_ORDERING=0 "$bin/kvrail" topo >"$work/gpus"
    says "$work/gpus" '^0 .*0000:9a:00.0 .*after a flush'
    says "$work/gpus" '^1 .*0000:9b:00.0 .*after a flush'
    FAKE_CUDA_ORDERING=0 FAKE_CUDA_FLUSH_OPTIONS=0 "$bin/kvrail" topo >"$work/gpus"
    says "$work/gpus" '0000:9a:00.0 .*in no order'
    FAKE_CUDA_MPS=1 "$bin/kvrail" topo >"$work/gpus"
    says "$work/gpus" '^0 .*0000:9a:00.0 .*65536 of 65536 .*yes .*in order'
    FAKE_NVML_NONE=1 "$bin/kvrail" topo >"$work/gpus"
    says "$work/gpus" '^0 .*0000:9a:00.0 .*no NVML .*no .*in order'
    "$bin/kvrail" topo --json >"$work/gpus.json"
    says "$work/gpus.json" '"card_writes": "ordered"'
    says "$work/gpus.json" '"memory_bytes": 68719476736'
fi

for command in "topo --json" "sim --seeds 1:1 --faults none" "bench plan --runs 1 --tokens 64"; do
    status=0
    # shellcheck disable=SC2086 # words of a command
    "$bin/kvrail" $command >/dev/full 2>"$work/full" || status=$?
    [ $status = 1 ] || fail "$command with a full disk behind it ended in $status"
    says "$work/full" 'standard output cannot be written: No space left on device'
done

topo_of p5 >"$work/p5"
[ "$(grep -c '^GPU ' "$work/p5")" = 8 ] || fail "a p5 has 8 GPUs: $(cat "$work/p5")"
says "$work/p5" '^GPU 7 0000:c0:00.0, NUMA node 1, cores 84-95,180-191: .*rdmap196s0 (0000:c4:00.0, efa, 100 Gb/s, switch)$'
topo_of p5 --json >"$work/p5.json"
[ "$(grep -c '"gpu": [0-7],' "$work/p5.json")" = 8 ] || fail "a p5 has 8 groups"
[ "$(grep -c '"speed_gbps": 100.0' "$work/p5.json")" = 32 ] || fail "a p5 has 32 cards"
# A name that is cut to its room is cut between two characters, or JSON has no place for it.
sed "s/rdmap196s0/$(printf 'x%40s' | sed 's/ /é/g')/" "$work/p5.xml" >"$work/long.xml"
"$bin/kvrail" topo --xml "$work/long.xml" --json >"$work/long.json"
says "$work/long.json" '"name": "xéééé'
[ "$(grep -c '"speed_gbps": 100.0' "$work/long.json")" = 32 ] || fail "a card with a long name is missing"
says "$work/p5.json" '"warnings": \[\]'
for key in numa cores rails name pci provider distance; do
    says "$work/p5.json" "\"$key\": "
done
[ "$(grep -c '"nearness": "switch"' "$work/p5.json")" = 32 ] || fail "a p5's cards lie on switches of GPUs"
topo_of p5en --json >"$work/p5en.json"
[ "$(grep -c '"nearness": "switch"' "$work/p5en.json")" = 16 ] || fail "a p5en's cards lie on switches of GPUs"
[ "$(grep -c '"speed_gbps": 200.0' "$work/p5en.json")" = 16 ] || fail "a p5en has 16 cards"
topo_of dgx_h100 --json >"$work/dgx.json"
[ "$(grep -c '"speed_gbps": 400.0' "$work/dgx.json")" = 8 ] || fail "a DGX H100 has 8 cards"
topo_of two_sockets >"$work/two"
says "$work/two" '^NUMA node 1, cores 16-31: mlx5_1 (0000:b1:00.0, verbs, 400 Gb/s)$'
topo_of odd >"$work/odd"
says "$work/odd" '^What is odd:$'
says "$work/odd" '^  the link of card mlx5_0 (0000:11:00.0) is down'
says "$work/odd" '^  card mlx5_1 (0001:40:00.0) is far from GPU 2'
says "$work/odd" '^  the cards of GPU 0 have unequal speeds'
# How far each GPU is from the cards of its group: the same switch, the same node, another socket.
says "$work/odd" '^GPU 0 .* rdmap18s0 (0000:12:00.0, efa, 100 Gb/s, switch)'
says "$work/odd" '^GPU 1 .* mlx5_1 (0001:40:00.0, verbs, 400 Gb/s, node)'
says "$work/odd" '^GPU 2 .* mlx5_1 (0001:40:00.0, verbs, 400 Gb/s, far) of GPU 1'
topo_of vm --json >"$work/vm.json"
says "$work/vm.json" '"groups": \[\],'
says "$work/vm.json" 'there is no network card'

status=0
"$bin/kvrail" topo --xml "$work/nowhere.xml" 2>"$work/nowhere" || status=$?
[ $status = 1 ] || fail "topo of no file ended in $status"
says "$work/nowhere" 'nowhere.xml cannot be read'
echo "topo: this host and 6 others, 1 passed, 0 failed"
