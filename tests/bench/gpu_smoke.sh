#!/bin/sh
# Goal: `kvrail bench gpu`, and `bench push` of pages on a device, print all promised figures, check the
# pages, and report a missing GPU. Argument: the folder of a driver of host memory, or "" where the build
# has none. Method: the emulated device, and that driver.
set -eu
driver=${1-}
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/gpu-smoke.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "gpu_smoke: $1" >&2
    exit 1
}

bench_gpu() {
    "$kvrail" bench gpu --bytes 64M --rounds 2 --turn 5ms --pings 64 --json "$work/figures.json" "$@" \
        >"$work/table" || fail "$* ended in $?: $(cat "$work/table")"
    for key in out gather gather_driver in scatter scatter_driver beside ready; do
        grep -q "\"$key\": {" "$work/figures.json" || fail "no $key in the JSON"
    done
    [ "$(grep -c '"gb_s": [0-9]' "$work/figures.json")" -ge 7 ] || fail "not all rates are in the JSON"
    ! grep -q '"gb_s": 0\.0,' "$work/figures.json" || fail "a rate is 0"
}

bench_push() {
    status=0
    "$kvrail" bench push --page-bytes 16k --pages 64 --layers 4 --pool-bytes 16M --pairs 1 --seconds 0.05 \
        --raw-window 4 --json "$work/figures.json" "$@" >"$work/table" || status=$?
    [ "$status" = 0 ] || [ "$status" = 75 ] || fail "push $* ended in $status"
    grep -q '"pages_checked": 1024' "$work/figures.json" || fail "the pages were not checked"
}

bench_gpu --device emulated
grep -q '"pings": 64' "$work/figures.json" || fail "pings were lost"
grep -q 'no speed of any GPU' "$work/table" || fail "the table does not warn that its speeds are of no GPU"
bench_push --device emulated
status=0
FAKE_CUDA_NO_GPU=1 LD_LIBRARY_PATH=$driver "$kvrail" bench gpu 2>"$work/errors" || status=$?
[ -e /dev/nvidia0 ] || [ "$status" = 77 ] || fail "without a GPU it ended in $status"
[ -e /dev/nvidia0 ] || [ -s "$work/errors" ] || fail "it did not say that there is no GPU"
[ -n "$driver" ] || exit 0
export LD_LIBRARY_PATH="$driver"
bench_gpu
# With nvcc there is a kernel, and then every way to copy is measured.
grep -q '"skipped"' "$work/figures.json" || grep -q '"gather_packed": {' "$work/figures.json" ||
    fail "pieces were not packed"
bench_push --device cuda --provider local
