#!/bin/sh
# Builds kvrail, tests it on a GPU and measures it there, within nine minutes.
# Self-contained: with a folder made by tests/gpu/pack.sh it needs only a CUDA toolkit, cmake, ninja or make,
# and a compiler.
#
#   sh tests/gpu/run.sh [--part build|measure|test|all] [--json] [--pack FOLDER] [--build FOLDER]
#                       [--driver FOLDER]
#
# Prints a line for each check, and one for each figure that has a bar: "NAME: passed (VALUE >= BAR)". The last
# line is "gpu: N passed, N failed, N skipped". With --json the line before it has the machine, every result
# with its value and bar, and every figure; results.json in the build's folder has the same. A check that this
# machine cannot run is skipped with a reason. After a failure the other checks still run.
# --part: the part to run; "all" builds if necessary, measures, then tests. Where a command must be shorter, run
# the parts one by one, over the same build folder.
# --driver: the folder of a libcuda.so.1 to use instead of the system's. With the tests' own driver of host
# memory everything runs without a GPU, and the figures are the speed of no GPU.
# Exit status: 0; 1 when a check failed; 77 without a GPU.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
pack='' build=$root/build/gpu json='' driver='' part=all
while [ $# -gt 0 ]; do
    case $1 in
    --pack) pack=$(cd "$2" && pwd) && shift ;;
    --build) build=$2 && shift ;;
    --driver) driver=$(cd "$2" && pwd) && shift ;;
    --part) part=$2 && shift ;;
    --json) json=yes ;;
    *) part=unknown ;;
    esac
    shift
done
case $part in
build | measure | test | all) ;;
*)
    echo "usage: run.sh [--part build|measure|test|all] [--json] [--pack FOLDER] [--build FOLDER]" \
        "[--driver FOLDER]" >&2
    exit 2
    ;;
esac
does() { [ "$part" = "$1" ] || [ "$part" = all ]; }

# ---- the machine ------------------------------------------------------------------------------------

# Some containers have the driver's files here.
folder=/usr/local/nvidia
[ ! -d $folder/bin ] || PATH=$PATH:$folder/bin
[ ! -e $folder/lib64/libcuda.so.1 ] ||
    export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder/lib64"
has_gpu() {
    { nvidia-smi -L 2>/dev/null || ls /dev/nvidia0 /proc/driver/nvidia/gpus/* 2>/dev/null; } | grep -q .
}
ask() { # prints the field of nvidia-smi with that name
    nvidia-smi --query-gpu="$1" --format=csv,noheader 2>/dev/null | head -n 1
}
if [ -n "$driver" ]; then
    device='driver of host memory, no GPU' driver_version=$driver
elif has_gpu; then
    device=$(ask name) driver_version=$(ask driver_version)
else
    echo "this machine has no GPU: nvidia-smi -L shows none, and there is no /dev/nvidia0"
    echo "gpu: 0 passed, 0 failed, 1 skipped"
    exit 77
fi
began=$(date +%s)
seconds_left() { echo $((520 - $(date +%s) + began)); }
commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || cat "$pack/commit" 2>/dev/null || echo unknown)
echo "$device, driver $driver_version, commit $commit, $(nproc) cores"

# ---- build ------------------------------------------------------------------------------------------

[ -n "$(command -v nvcc)" ] || PATH=$PATH:/usr/local/cuda/bin
if [ -n "$pack" ]; then
    # Only the programs of this build may find these libraries: the machine's own programs have others, perhaps
    # of the same names.
    lib=$pack/usr/lib/x86_64-linux-gnu
    export PATH="$PATH:$pack/usr/bin" LIBRARY_PATH="$lib" \
        CPATH="$pack/usr/include:$pack/usr/include/x86_64-linux-gnu" \
        LDFLAGS="-Wl,--disable-new-dtags,-rpath,$lib,-rpath-link,$lib" CMAKE_PREFIX_PATH="$pack/usr" \
        PKG_CONFIG_PATH="$lib/pkgconfig:$pack/usr/share/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$pack"
fi
generator=
[ -z "$(command -v ninja)" ] || generator=-GNinja
mkdir -p "$build"
build=$(cd "$build" && pwd)
build_all() {
    if [ ! -f "$build/CMakeCache.txt" ]; then
        # shellcheck disable=SC2086 # nothing, or one word
        cmake -S "$root" -B "$build" $generator -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON \
            -DKVRAIL_WERROR=OFF || return 1
    fi
    timeout 300 cmake --build "$build" -j "$(nproc)" --target device.conformance_host gpu_pair gpu_probe \
        prefill-agent decode-agent kvrail-scheduler kvrail || return 1
    # Without nvcc these targets do not exist.
    timeout 120 cmake --build "$build" -j "$(nproc)" --target example_prefill_gpu example_decode_gpu || true
}
if ! build_all >"$build/gpu.log" 2>&1; then
    tail -n 40 "$build/gpu.log"
    echo "gpu: 0 passed, 1 failed, 0 skipped"
    exit 1
fi
echo "built in $(($(date +%s) - began)) s"
[ -z "$driver" ] || export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

[ "$part" != build ] || exit 0

# ---- results ----------------------------------------------------------------------------------------

passed=0 failed=0 skipped=0 results='' figures=''
text() { printf '%s' "$1" | tr '\\"' "/'" | tr -d '[:cntrl:]'; } # as JSON has it

# result NAME passed|failed|skipped [WORD [VALUE BAR]]
result() {
    eval "$2=\$(($2 + 1))"
    bar=''
    [ $# -lt 5 ] || bar=", \"value\": $4, \"bar\": \"$5\""
    results="$results${results:+, }\"$1\": {\"result\": \"$2\", \"says\": \"$(text "${3:-}")\"$bar}"
    echo "$1: $2${3:+ ($3)}"
}

# check SECONDS NAME COMMAND…: NAME.out has the command's output. A check that exits with 77 counts as skipped,
# and so does one that ran out of time because too little was left.
check() {
    limit=$1 name=$2 code=0 left=$(seconds_left)
    shift 2
    if [ "$left" -lt 10 ]; then
        result "$name" skipped 'no time was left'
        return
    fi
    whole=$limit
    [ "$limit" -le "$left" ] || limit=$left
    timeout -k 5 "$limit" "$@" >"$build/$name.out" 2>&1 || code=$?
    says=$(tail -n 1 "$build/$name.out")
    case $code in
    0) result "$name" passed "$says" ;;
    77) result "$name" skipped "$says" ;;
    124 | 137)
        if [ "$limit" -lt "$whole" ]; then
            result "$name" skipped "only $limit s were left"
        else
            tail -n 20 "$build/$name.out"
            result "$name" failed "not done in $limit s: $says"
        fi
        ;;
    *)
        tail -n 20 "$build/$name.out"
        result "$name" failed "exit $code: $says"
        ;;
    esac
}

# ---- calls that this machine allows ----------------------------------------------------------------

export KVRAIL_BIN_DIR="$build/bin" KVRAIL_ROOT_DIR="$root"
timeout 60 "$build/tests/gpu_probe" >"$build/probes.out" 2>&1 || echo "probe no: exit $?" >>"$build/probes.out"
can() { grep -q "^$1 yes" "$build/probes.out"; }
for probe in ipc vmm dmabuf memops; do
    if can $probe; then result "probe_$probe" passed; else
        result "probe_$probe" skipped "$(grep "^$probe no\|^probe no" "$build/probes.out" | head -n 1)"
    fi
done
kinds=host
! can ipc || kinds="$kinds ipc"
! can vmm || kinds="$kinds vmm"

# ---- right bytes ------------------------------------------------------------------------------------

conformance=$build/tests/device.conformance_host
run_tests() {
    check 60 conformance_kernel "$conformance" cuda
    check 60 conformance_packed "$conformance" cuda_packed
    check 60 conformance_driver "$conformance" cuda_driver
    if [ -n "$driver" ]; then requests=20 campaign=0 tables=50; else requests=556 campaign=1 tables=10000; fi
    # shellcheck disable=SC2016 # the inner shell expands it
    check 120 random_tables env KVRAIL_CAMPAIGN=$campaign sh -c '"$@" &&
        echo "$0 scatters and as many gathers of random pieces, every byte right"' $tables "$conformance" cuda
    if can vmm; then
        check 60 conformance_extents env KVRAIL_EXTENTS=1 "$conformance" cuda
        for provider in tcp local; do
            check 90 "segments_$provider" env provider=$provider KVRAIL_GPU_KINDS="host segments" \
                KVRAIL_REQUESTS=$((requests / 4)) sh "$root/tests/e2e/device_pairs.sh" "$driver"
        done
    else
        for name in conformance_extents segments_tcp segments_local; do
            result "$name" skipped 'no process may open VMM allocations'
        done
    fi
    for provider in tcp local; do
        check 150 "pairs_$provider" env provider=$provider KVRAIL_GPU_KINDS="$kinds" KVRAIL_REQUESTS=$requests \
            sh "$root/tests/e2e/device_pairs.sh" "$driver"
    done
    if [ -n "$driver" ]; then
        result example skipped "CUDA's runtime asks for a real driver"
    elif ! can ipc; then
        result example skipped 'its pages come from cudaMalloc, and CUDA IPC is refused'
    elif [ -x "$build/examples/example_prefill_gpu" ]; then
        check 90 example sh "$root/tests/e2e/gpu_example.sh"
    else
        result example skipped 'no nvcc'
    fi
    sanitized memcheck
    sanitized racecheck
}

# sanitized TOOL: runs the kernels under the tool; skipped where the tool does not know the device.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
sanitized() {
    if [ -n "$driver" ] || [ -z "$sanitizer" ]; then
        result "$1" skipped 'no compute-sanitizer here'
    elif timeout 60 "$sanitizer" --tool "$1" "$build/tests/gpu_probe" >"$build/$1.probe" 2>&1 ||
        ! grep -qi 'not supported' "$build/$1.probe"; then
        # The tests make calls that the driver must refuse.
        check 70 "$1" env KVRAIL_SCALE=10 "$sanitizer" --tool "$1" --report-api-errors no \
            --error-exitcode 1 "$conformance" cuda
    else
        result "$1" skipped "it says: $(grep -i 'not supported' "$build/$1.probe" | head -n 1)"
    fi
}

# ---- figures ----------------------------------------------------------------------------------------

# number NAME: prints a member of the last figures; NAME.KEY: a member one level below.
number() {
    case $1 in
    *.*)
        sed -n "/^  \"${1%.*}\": {/,/}/p" "$of" | sed -n "s/^ *\"${1#*.}\": *\\([-0-9.e+]*\\),*\$/\\1/p" |
            head -n 1
        ;;
    *) sed -n "s/^  \"$1\": *\\([-0-9.e+]*\\),*\$/\\1/p" "$of" | head -n 1 ;;
    esac
}

# bar NAME VALUE OPERATOR BAR: for real GPUs only; a missing value has failed or was skipped already.
bar() {
    if [ -z "$2" ]; then
        result "$1" skipped "not measured; it must be $3 $4"
    elif [ -n "$driver" ]; then
        result "$1" skipped "$2 $3 $4 is not asked of a driver of host memory" "$2" "$3 $4"
    elif awk -v a="$2" -v b="$4" "BEGIN { exit !(a + 0 $3 b + 0) }"; then
        result "$1" passed "$2 $3 $4" "$2" "$3 $4"
    else
        result "$1" failed "$2 is not $3 $4" "$2" "$3 $4"
    fi
}

# measure NAME BENCHMARK…: its JSON becomes a figure of that name. A machine that was not quiet (75) is marked
# in the figure, and is no failure.
measure() {
    name=$1
    shift
    of=$build/$name.json
    rm -f "$of"
    # shellcheck disable=SC2016 # the inner shell expands it
    check 90 "$name" sh -c '"$@" || [ $? = 75 ]' measure "$build/bin/kvrail" bench "$@" --json "$of"
    [ ! -s "$of" ] || figures="$figures${figures:+, }\"$name\": $(tr -d '\n' <"$of")"
    touch "$of"
}
smallest() { printf '%s\n' "$@" | grep . | sort -g | head -n 1; }
# share PART WHOLE: prints the ratio, or nothing where a number is missing.
share() {
    if [ -n "$1" ] && [ -n "$2" ]; then awk -v part="$1" -v of="$2" 'BEGIN { printf "%.3f", part / of }'; fi
}

# pushed NAME PROVIDER OPTION…: measures a push of device memory, which the agents open.
pushed() {
    name=$1 provider=$2
    shift 2
    of=$build/$name.json
    if can vmm; then
        measure "$name" push --provider "$provider" --device cuda "$@"
    else
        result "$name" skipped 'no process may open device memory'
        : >"$of"
    fi
}

# Without a GPU the benchmarks only have to run.
run_figures() {
    if [ -n "$driver" ]; then
        gpu='--bytes 64M --rounds 3 --turn 20ms --pings 256'
        push='--pairs 1 --seconds 0.2'
        huge='--page-bytes 64k --pages 512 --pool-bytes 256M --staging-memory 16M'
    else
        gpu='' push='--pairs 5 --seconds 1'
        huge='--page-bytes 1M --pages 1024 --pool-bytes 5G --staging-memory 256M'
    fi
    # shellcheck disable=SC2086 # lists of options
    measure gpu gpu $gpu
    copy=$(smallest "$(number out.gb_s)" "$(number in.gb_s)") beside=$(number beside.gb_s)
    bar gathered_of_contiguous "$(number gather.ratio)" '>=' 0.9
    bar readiness_p50_us "$(number ready.p50_us)" '<=' 8
    bar readiness_p99_us "$(number ready.p99_us)" '<=' 20
    # shellcheck disable=SC2086
    pushed push_tcp tcp --staging-memory 1G $push
    bar staged_of_copy_and_network "$(share "$(number gb_s)" "$(smallest "$copy" "$(number raw_gb_s)")")" '>=' 0.9
    # shellcheck disable=SC2086
    pushed push_local local $push $huge
    bar same_gpu_of_plain_copy "$(share "$(number gb_s)" "$beside")" '>=' 0.85
}

# ---- the end ----------------------------------------------------------------------------------------

! does measure || run_figures
! does test || run_tests

of=$build/results.json
[ "$part" = all ] || of=$build/results_$part.json
probes=$(sed 's/"/'"'"'/g; s/^\([a-z]*\) \(.*\)$/"\1": "\2"/' "$build/probes.out" | paste -sd, -)
printf '{"device": "%s", "driver": "%s", "commit": "%s", "cores": %s, "part": "%s", "seconds": %s, "probes": {%s}, "results": {%s}, "figures": {%s}}\n' \
    "$device" "$driver_version" "$commit" "$(nproc)" "$part" $(($(date +%s) - began)) "$probes" "$results" \
    "$figures" >"$of"
[ -z "$json" ] || cat "$of"
(cd "$build" && tar czf evidence.tgz gpu.log results*.json -- *.out *.probe) 2>/dev/null || true
echo "gpu: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
