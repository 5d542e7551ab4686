#!/bin/sh
# Goal: `kvrail bench push` moves pages both ways, prints all promised figures, refuses impossible options
# and leaves nothing behind. Method: two short pairs; exit 75 (not quiet) counts as 0 here.
set -eu
provider=${1:-tcp}
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/push-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"

fail() {
    echo "push_smoke: $1" >&2
    exit 1
}

status=0
TMPDIR=$work/tmp "$kvrail" bench push --provider "$provider" --page-bytes 16k --pages 64 --layers 4 \
    --scatter --pool-bytes 16M --pairs 2 --seconds 0.1 --json "$work/figures.json" >"$work/table" || status=$?
[ "$status" = 0 ] || [ "$status" = 75 ] || fail "it ended in $status"
for key in gb_s raw_gb_s same_gb_s ratio ratio_same cpu_s_per_gb raw_cpu_s_per_gb cpu_ratio writes p50_us \
    p99_us bytes provider rails page_bytes pages pairs machine cores libfabric waiting; do
    grep -q "\"$key\"" "$work/figures.json" || fail "no $key in the JSON"
done
[ "$(grep -c '"raw_gb_s"' "$work/figures.json")" = 3 ] || fail "not every pair is in the JSON"
for key in bytes raw_bytes same_bytes gb_s writes; do
    ! grep -q "\"$key\": 0\(\.0\)\{0,1\},\{0,1\}$" "$work/figures.json" || fail "$key is 0"
done
grep -q '"pages_checked": 1024' "$work/figures.json" || fail "the pages were not checked"
grep -q 'CPU s/GB' "$work/table" || fail "no table"
# The raw loops use the better of spinning and sleeping, and the agents' congestion control.
waits='"waits": "\(spinning\|sleeping\)"'
[ "$provider" = tcp ] || waits='"waits": "\(spinning\|sleeping\|not at all\)"'
[ "$(grep -c "$waits" "$work/figures.json")" = 2 ] || fail "the JSON does not name the way in which the raw loops wait"
grep -q '"raw_tcp_congestion": "auto"' "$work/figures.json" || fail "raw has another congestion control"
grep -q '"contiguous": false' "$work/figures.json" || fail "--scatter does not scatter"

# Merged pages: the raw loop writes a MiB at a time, and so does kvrail.
status=0
"$kvrail" bench push --provider "$provider" --page-bytes 16k --pages 256 --layers 4 --contiguous \
    --pool-bytes 64M --pairs 1 --seconds 0.1 --raw-window 4 --batch 1 --inline 128 \
    --tcp-congestion host --raw-tcp-congestion auto \
    --against chunk-bytes-max=64k --against warm-up=no --json "$work/figures.json" >"$work/table" || status=$?
[ "$status" = 0 ] || fail "with --contiguous it ended in $status"
[ "$(grep -c '"ratio_against": [0-9.]*[1-9]' "$work/figures.json")" = 2 ] || fail "--against had no turn"
[ "$(grep -c '"pages_a_piece": 64' "$work/figures.json")" = 2 ] || fail "contiguous pages did not merge"
[ -z "$(ls -A "$work/tmp")" ] || fail "it left $(ls "$work/tmp") behind"

# --no-scatter is --contiguous; the agents' congestion control reaches the raw loops.
quick="--pages 8 --layers 4 --page-bytes 16k --pool-bytes 1M --pairs 1 --seconds 0.02 --raw-window 2"
status=0
# shellcheck disable=SC2086 # a list of options
"$kvrail" bench push --provider "$provider" $quick --no-scatter --json "$work/figures.json" >/dev/null || status=$?
[ "$status" = 0 ] || fail "with --no-scatter it ended in $status"
grep -q '"contiguous": true' "$work/figures.json" || fail "--no-scatter scatters"
if [ "$provider" = tcp ]; then
    status=0
    # shellcheck disable=SC2086 # a list of options
    "$kvrail" bench push $quick --raw-tcp-congestion none-such 2>"$work/errors" || status=$?
    [ "$status" = 1 ] || fail "a congestion control that does not exist ended in $status"
    grep -q "raw .*none-such" "$work/errors" || fail "the raw loop has no congestion control: $(cat "$work/errors")"
fi

refuses() {
    status=0
    "$kvrail" bench push "$@" 2>"$work/errors" || status=$?
    [ "$status" = 2 ] || fail "$* ended in $status instead of 2"
    [ -s "$work/errors" ] || fail "$* was refused without a sentence"
}
refuses --provider local --rails 2
refuses --seconds soon
refuses --against spin
refuses --warm-up perhaps
refuses --page-bytes 1000
refuses --pages 3 --layers 2
refuses --provider local --netns 2
refuses --target-rails 2
refuses --pool-bytes 1M --pages 64
