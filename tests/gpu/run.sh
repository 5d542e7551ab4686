#!/bin/sh
# What needs a GPU: builds kvrail and runs it on one. Self-contained: with a folder made by
# tests/gpu/pack.sh it needs only a CUDA toolkit, cmake, ninja or make, and a compiler.
#
#   sh tests/gpu/run.sh [--pack FOLDER] [--build FOLDER] [--json]
#
# The last line is "gpu: N passed, N failed, N skipped"; with --json a line before it has each by name.
# Exit status 0, 1 when something failed, 77 when there is no GPU.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
pack='' build=$root/build/gpu json=''
while [ $# -gt 0 ]; do
    case $1 in
    --pack) pack=$(cd "$2" && pwd) && shift ;;
    --build) build=$2 && shift ;;
    --json) json=yes ;;
    *) echo "usage: run.sh [--pack FOLDER] [--build FOLDER] [--json]" >&2 && exit 2 ;;
    esac
    shift
done

if ! { nvidia-smi -L 2>/dev/null || ls /dev/nvidia0 /proc/driver/nvidia/gpus/* 2>/dev/null; } | grep -q .; then
    echo "gpu: this machine has no GPU: nvidia-smi -L shows none"
    exit 77
fi
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null || true
[ -n "$(command -v nvcc)" ] || PATH=$PATH:/usr/local/cuda/bin
if [ -n "$pack" ]; then
    lib=$pack/usr/lib/x86_64-linux-gnu
    export PATH="$PATH:$pack/usr/bin" CPATH="$pack/usr/include" LIBRARY_PATH="$lib" \
        LD_LIBRARY_PATH="$lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" CMAKE_PREFIX_PATH="$pack/usr" \
        PKG_CONFIG_PATH="$lib/pkgconfig:$pack/usr/share/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$pack"
fi

generator=
[ -z "$(command -v ninja)" ] || generator=-GNinja
mkdir -p "$build"
# shellcheck disable=SC2086 # nothing, or one word
if ! { cmake -S "$root" -B "$build" $generator -DCMAKE_BUILD_TYPE=Release &&
    cmake --build "$build" -j "$(nproc)" --target device.conformance_host gpu_pair prefill-agent \
        decode-agent kvrail-scheduler kvrail example_prefill_gpu example_decode_gpu; } >"$build/gpu.log" 2>&1; then
    tail -n 40 "$build/gpu.log"
    echo "gpu: 0 passed, 1 failed, 0 skipped"
    exit 1
fi

passed=0 failed=0 skipped=0 results=''

# result NAME passed|failed|skipped [WORD]
result() {
    eval "$2=\$(($2 + 1))"
    results="$results${results:+, }\"$1\": \"$2\""
    echo "$1: $2${3:+ ($3)}"
}

# check NAME COMMAND…: 77 is skipped.
check() {
    name=$1 code=0
    shift
    timeout 900 "$@" >"$build/$name.out" 2>&1 || code=$?
    case $code in
    0) result "$name" passed "$(grep -c . "$build/$name.out") lines" ;;
    77) result "$name" skipped "$(tail -n 1 "$build/$name.out")" ;;
    *) tail -n 20 "$build/$name.out" && result "$name" failed "exit $code" ;;
    esac
}

export KVRAIL_BIN_DIR="$build/bin" KVRAIL_ROOT_DIR="$root"
conformance=$build/tests/device.conformance_host
check conformance_kernel "$conformance" cuda
check conformance_driver "$conformance" cuda_driver
check random_copies env KVRAIL_CAMPAIGN=1 "$conformance" cuda
for provider in tcp local; do
    check "pairs_$provider" env provider=$provider "KVRAIL_REQUESTS=${KVRAIL_REQUESTS:-1112}" \
        sh "$root/tests/e2e/device_pairs.sh" ''
done

check example sh "$root/tests/e2e/gpu_example.sh"

# sanitized TOOL: skipped where the tool does not know the device.
sanitized() {
    sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
    if [ -z "$sanitizer" ]; then
        result "$1" skipped 'no compute-sanitizer'
    elif ! "$sanitizer" --tool "$1" "$conformance" cuda >"$build/$1.probe" 2>&1 &&
        grep -q 'Device not supported' "$build/$1.probe"; then
        result "$1" skipped 'this machine does not let it'
    else
        check "$1" env KVRAIL_SCALE=10 "$sanitizer" --tool "$1" --error-exitcode 1 "$conformance" cuda
    fi
}
sanitized memcheck
sanitized racecheck

[ -z "$json" ] || echo "{$results}"
echo "gpu: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
