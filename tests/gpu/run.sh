#!/bin/sh
# Tests and measures kvrail on a GPU, in parts of at most eight minutes each.
#
#   sh tests/gpu/run.sh --pack FOLDER [--build FOLDER]
#   sh tests/gpu/run.sh --list
#   sh tests/gpu/run.sh [--part PART] [--out FOLDER] [--build FOLDER] [--driver FOLDER]
#   sh tests/gpu/run.sh --report FOLDER…
#
# --pack: makes a folder with built programs, for a machine that has a GPU and nothing else. There `sh run.sh` in
# that folder is this script.
# --list: the parts. --part: one of them; without it all, one after another. Each works by itself.
# --out: where results go, as they come: PART.tsv, to which later runs add, and PART.tgz with the output of every
# check of the last run. --report prints the results in such folders, of one machine or several, as a page.
# --driver: the folder of a libcuda.so.1 to use instead of the system's. With the tests' own driver of host
# memory everything runs without a GPU, and the figures are the speed of no GPU.
#
# A check that fails, or that this machine cannot run, prints its reason; the others still run. The last line is
# "gpu: N passed, N failed, N skipped". Exit status: 0; 1 when a check failed; 77 without a GPU.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
packed=
[ ! -e "$root/kvrail/commit" ] || packed=yes
build=$root/${packed:+kvrail}
[ -n "$packed" ] || build=$root/build/gpu
out='' driver='' pack='' parts='probes correct pairs figures' mode=run
usage() {
    sed -n 's/^#   //p' "$here/run.sh" >&2
    exit 2
}
list() {
    echo 'probes   what the machine lets processes do with GPU memory'
    echo 'correct  the contract of a device, random tables, the example, the sanitizer'
    echo 'pairs    every byte between engines, for each pair of kinds of memory'
    echo 'figures  kvrail bench gpu and push, with bars; beside a busy process; a large region'
}
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        sed -n '2,19s/^# \{0,1\}//p' "$here/run.sh"
        exit 0
        ;;
    --list) list && exit 0 ;;
    --report) shift && exec sh "$here/report.sh" "$@" ;;
    --pack | --build | --driver | --part | --out) [ $# -ge 2 ] || usage ;;
    *) usage ;;
    esac
    case $1 in
    --pack) pack=$2 mode=pack ;;
    --build) build=$2 ;;
    --driver) driver=$(cd "$2" && pwd) ;;
    --part) parts=$2 ;;
    --out) out=$2 ;;
    esac
    shift 2
done
case $parts in
'probes correct pairs figures') ;;
*) list | grep -q "^$parts " || usage ;;
esac

# ---- programs ---------------------------------------------------------------------------------------

[ -n "$(command -v nvcc)" ] || PATH=$PATH:/usr/local/cuda/bin
build_all() {
    if [ ! -f "$build/CMakeCache.txt" ]; then
        generator=
        [ -z "$(command -v ninja)" ] || generator=-GNinja
        # shellcheck disable=SC2086 # nothing, or one word
        cmake -S "$root" -B "$build" $generator -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON \
            -DKVRAIL_CUDA=ON -DKVRAIL_WERROR=OFF || return 1
    fi
    cmake --build "$build" -j "$(nproc)" --target device.conformance_host gpu_pair gpu_probe gpu_imported \
        gpu_beside gpu_region prefill-agent decode-agent kvrail-scheduler kvrail || return 1
    # Without nvcc these targets do not exist.
    cmake --build "$build" -j "$(nproc)" --target example_prefill_gpu example_decode_gpu || true
}
# In a pack they are built already.
programs() {
    mkdir -p "$build"
    build=$(cd "$build" && pwd)
    [ -z "$packed" ] || return 0
    if ! build_all >"$build/gpu.log" 2>&1; then
        tail -n 40 "$build/gpu.log"
        echo "gpu: 0 passed, 1 failed, 0 skipped"
        exit 1
    fi
}
if [ $mode = pack ]; then
    [ -z "$packed" ] || { echo "this is a pack; make one from the sources" >&2 && exit 2; }
    programs
    exec python3 -B "$here/pack.py" "$build" "$pack"
fi

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
    device='driver of host memory' driver_version=none
elif has_gpu; then
    device=$(ask name) driver_version=$(ask driver_version)
else
    echo "this machine has no GPU: nvidia-smi -L shows none, and there is no /dev/nvidia0"
    echo "gpu: 0 passed, 0 failed, 1 skipped"
    exit 77
fi
programs
commit=$(cat "$build/commit" 2>/dev/null || git -C "$root" rev-parse --short HEAD 2>/dev/null || echo unknown)
kernels=$(cat "$build/kernels" 2>/dev/null || echo 'as built here')
echo "${device:-a GPU}, driver ${driver_version:-unknown}, commit $commit, $(nproc) cores; kernels: $kernels"
[ -z "$driver" ] || export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
out=${out:-./gpu-results}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-gpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 143' TERM
export KVRAIL_BIN_DIR="$build/bin" KVRAIL_ROOT_DIR="$root"

# ---- results ----------------------------------------------------------------------------------------

passed=0 failed=0 skipped=0
seconds_left() { echo $((${KVRAIL_GPU_SECONDS:-460} - $(date +%s) + began)); } # of the part
text() { printf '%s' "$1" | tr -d '[:cntrl:]'; }
tabbed() { # a line of PART.tsv
    line=$1
    shift
    for field in "$@"; do line="$line$(printf '\t')$(text "$field")"; done
    echo "$line" >>"$out/$part.tsv"
}

# result NAME passed|failed|skipped [WORDS [VALUE BAR]]
result() {
    eval "$2=\$(($2 + 1))"
    tabbed result "$1" "$2" "${3:-}" "${4:-}" "${5:-}"
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
    timeout -k 5 "$limit" "$@" >"$work/$name.out" 2>&1 || code=$?
    says=$(tail -n 1 "$work/$name.out")
    case $code in
    0) result "$name" passed "$says" ;;
    77) result "$name" skipped "$says" ;;
    124 | 137)
        if [ "$limit" -lt "$whole" ]; then
            result "$name" skipped "only $limit s were left"
        else
            tail -n 20 "$work/$name.out"
            result "$name" failed "not done in $limit s: $says"
        fi
        ;;
    *)
        tail -n 20 "$work/$name.out"
        result "$name" failed "exit $code: $says"
        ;;
    esac
    (cd "$work" && tar czf "$out/$part.new" -- *.out && mv "$out/$part.new" "$out/$part.tgz") 2>/dev/null || true
}

# ---- probes -----------------------------------------------------------------------------------------

# Other parts ask too, and leave out what cannot run.
ask_driver() {
    timeout -k 5 45 "$build/tests/gpu_probe" >"$work/gpu_probe.out" 2>&1 ||
        echo "probe no: exit $?" >>"$work/gpu_probe.out"
    kinds=host
    ! can ipc || kinds="$kinds ipc"
    ! can vmm || kinds="$kinds vmm"
}
can() { grep -q "^$1 yes" "$work/gpu_probe.out"; }

run_probes() {
    for probe in ipc vmm dmabuf memops; do
        if can $probe; then result "probe_$probe" passed; else
            result "probe_$probe" skipped "$(grep "^$probe no\|^probe no" "$work/gpu_probe.out" | head -n 1)"
        fi
    done
    check 15 attributes "$build/tests/gpu_imported" attributes
    for probe in own dmabuf memops killed freed; do
        for kind in ipc vmm vmm_for_cards; do
            check 15 "${probe}_$kind" "$build/tests/gpu_imported" $probe $kind
        done
    done
    of_devices=${kinds#host} of_devices=${of_devices# }
    if [ -z "$of_devices" ]; then
        for name in agent_memory engine_killed visible contained torch; do
            result $name skipped 'no process may open device memory'
        done
        return
    fi
    check 40 agent_memory env KVRAIL_GPU_KINDS="${of_devices##* }" sh "$here/agent_memory.sh" "$driver"
    check 60 engine_killed env KVRAIL_GPU_KINDS="$of_devices" sh "$here/engine_killed.sh" "$driver"
    run_visible
    if ! unshare --fork --pid --mount-proc true 2>/dev/null; then
        result contained skipped 'this process may make no PID namespace'
    elif can vmm; then
        # CUDA IPC does not cross PID namespaces.
        check 60 contained env KVRAIL_ENGINE_CONTAINED=yes KVRAIL_GPU_KINDS='host vmm' KVRAIL_REQUESTS=20 \
            sh "$root/tests/e2e/device_pairs.sh" "$driver"
    else
        result contained skipped 'no process may open VMM allocations'
    fi
    if [ -n "$driver" ]; then
        result torch skipped 'PyTorch asks for a real driver'
    else
        check 110 torch sh "$here/torch_region.sh"
    fi
}

# Engines that see one GPU, by another name than the agents, or as another ordinal.
run_visible() {
    if [ -n "$driver" ]; then
        check 60 visible env FAKE_CUDA_GPUS=2 KVRAIL_ENGINE_GPUS=1 KVRAIL_GPU_KINDS="$of_devices" \
            KVRAIL_REQUESTS=2 sh "$root/tests/e2e/device_pairs.sh" "$driver"
        return
    fi
    seen=$(ask uuid)
    [ "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')" -lt 2 ] || seen=1
    if [ -n "$seen" ]; then
        check 60 visible env KVRAIL_ENGINE_GPUS="$seen" KVRAIL_GPU_KINDS="$of_devices" KVRAIL_REQUESTS=20 \
            sh "$root/tests/e2e/device_pairs.sh" ''
    else
        result visible skipped 'nvidia-smi names no GPU'
    fi
}

# ---- right bytes ------------------------------------------------------------------------------------

if [ -n "$driver" ]; then requests=20 tables=50; else requests=556 tables=10000; fi
requests=${KVRAIL_GPU_REQUESTS:-$requests}
conformance=$build/tests/device.conformance_host
run_correct() {
    for copier in kernel packed driver; do
        check 45 conformance_$copier "$conformance" cuda_$copier
    done
    campaign=1
    [ -z "$driver" ] || campaign=0
    for copier in kernel driver; do
        # shellcheck disable=SC2016 # the inner shell expands it
        check 60 random_tables_$copier env KVRAIL_CAMPAIGN=$campaign sh -c '"$@" &&
            echo "$0 scatters and as many gathers of random pieces, every byte right"' $tables "$conformance" \
            cuda_$copier
    done
    for copier in kernel driver; do
        if can vmm; then
            check 45 conformance_extents_$copier env KVRAIL_EXTENTS=1 "$conformance" cuda_$copier
        else
            result conformance_extents_$copier skipped 'no process may open VMM allocations'
        fi
    done
    if [ -n "$driver" ]; then
        result example skipped "CUDA's runtime asks for a real driver"
    elif ! can ipc; then
        result example skipped 'its pages come from cudaMalloc, and CUDA IPC is refused'
    elif [ -x "$build/examples/example_prefill_gpu" ]; then
        check 60 example sh "$root/tests/e2e/gpu_example.sh"
    else
        result example skipped 'the build found no nvcc'
    fi
    sanitized memcheck
    sanitized racecheck
}

# sanitized TOOL: runs the kernels under the tool; skipped where the tool does not know the device.
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
sanitized() {
    if [ -n "$driver" ] || [ -z "$sanitizer" ]; then
        result "$1" skipped 'no compute-sanitizer here'
    elif timeout 30 "$sanitizer" --tool "$1" "$build/tests/gpu_probe" >"$work/$1_probe.out" 2>&1 ||
        ! grep -qi 'not supported' "$work/$1_probe.out"; then
        # The tests make calls that the driver must refuse.
        check 60 "$1" env KVRAIL_SCALE=10 "$sanitizer" --tool "$1" --report-api-errors no \
            --error-exitcode 1 "$conformance" cuda_kernel
    else
        result "$1" skipped "it says: $(grep -i 'not supported' "$work/$1_probe.out" | head -n 1)"
    fi
}

run_pairs() {
    for provider in tcp local; do
        check 140 "pairs_$provider" env provider=$provider KVRAIL_GPU_KINDS="$kinds" KVRAIL_REQUESTS=$requests \
            sh "$root/tests/e2e/device_pairs.sh" "$driver"
    done
    for provider in tcp local; do
        if can vmm; then
            check 80 "segments_$provider" env provider=$provider KVRAIL_GPU_KINDS="host segments" \
                KVRAIL_REQUESTS=$(((requests + 3) / 4)) sh "$root/tests/e2e/device_pairs.sh" "$driver"
        else
            result "segments_$provider" skipped 'no process may open VMM allocations'
        fi
    done
}

# ---- figures ----------------------------------------------------------------------------------------

# numbers: of a benchmark's JSON, "KEY<tab>NUMBER" or "KEY.KEY<tab>NUMBER"; arrays are left out.
numbers() {
    awk '/^  "/ { above = "" }
        /^  "[^"]*": \{/ { split($0, part, "\""); above = part[2] "." }
        /^  (  )?"[^"]*": *-?[0-9][-+.0-9e]*,?$/ {
            split($0, part, "\"")
            value = part[3]
            gsub(/[:, ]/, "", value)
            print above part[2] "\t" value
        }' "$of"
}
number() { numbers | awk -v key="$1" -F '\t' '$1 == key { print $2; exit }'; }

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

# measure NAME BENCHMARK…: its numbers become figures NAME.KEY. A machine that was not quiet (75) is no failure;
# the figure NAME.exit is 75 then.
measure() {
    name=$1
    shift
    of=$work/$name.json.out
    : >"$of"
    # shellcheck disable=SC2016 # the inner shell expands it
    check 110 "$name" sh -c 'of=$1 code=0 && shift && { "$@" --json "$of" || code=$?; }
        printf "\n  \"exit\": %s\n" $code >>"$of" && { [ $code = 75 ] || exit $code; }' measure "$of" \
        "$build/bin/kvrail" bench "$@"
    figures "$name"
}
# figures NAME: the numbers of $of become figures NAME.KEY.
figures() {
    numbers | while IFS="$(printf '\t')" read -r key value; do tabbed figure "$1.$key" "$value"; done
}
# printed SECONDS NAME COMMAND…: a check that prints such JSON before its last line.
printed() {
    check "$@"
    of=$work/$2.out
    [ ! -e "$of" ] || figures "$2"
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
    if can vmm; then
        measure "$name" push --provider "$provider" --device cuda "$@"
    else
        result "$name" skipped 'no process may open device memory'
        of=/dev/null
    fi
}

# Without a GPU the benchmarks only have to run.
run_figures() {
    if [ -n "$driver" ]; then
        seconds=0.02 gib=1
        gpu='--bytes 64M --rounds 1 --turn 10ms --pings 64' large='--page-bytes 64k'
        push='--pairs 1 --seconds 0.1 --page-bytes 64k --pages 128 --pool-bytes 64M'
        tcp='--staging-memory 16M' huge=$tcp
    else
        seconds=0.7 gib=${KVRAIL_REGION_GIB:-100}
        gpu='' large='--page-bytes 64k --rounds 5' push='--pairs 5 --seconds 1' tcp='--staging-memory 1G'
        huge='--page-bytes 1M --pages 1024 --pool-bytes 5G --staging-memory 256M'
    fi
    # shellcheck disable=SC2086 # lists of options
    measure gpu gpu $gpu
    copy=$(smallest "$(number out.gb_s)" "$(number in.gb_s)") beside=$(number beside.gb_s)
    bar gathered_of_contiguous "$(number gather.ratio)" '>=' 0.9
    bar readiness_p50_us "$(number ready.p50_us)" '<=' 8
    bar readiness_p99_us "$(number ready.p99_us)" '<=' 20
    # shellcheck disable=SC2086
    measure gpu_64k gpu $gpu $large
    bar batched_of_contiguous "$(number gather_driver.ratio)" '>=' 0.9
    bar moved_of_contiguous "$(number move.ratio)" '>=' 0.5
    # shellcheck disable=SC2086
    pushed push_tcp tcp $push $tcp
    bar staged_of_copy_and_network "$(share "$(number gb_s)" "$(smallest "$copy" "$(number raw_gb_s)")")" '>=' 0.9
    # shellcheck disable=SC2086
    pushed push_local local $push $huge
    bar same_gpu_of_plain_copy "$(share "$(number gb_s)" "$beside")" '>=' 0.85
    printed 60 beside "$build/tests/gpu_beside" $seconds
    bar model_beside_copies "$(number gather_driver.model_slower)" '<=' 1.05
    if can vmm; then
        printed 60 region sh "$here/region_time.sh" "$gib" "$driver"
    else
        result region skipped 'no process may open device memory'
    fi
}

# ---- the parts --------------------------------------------------------------------------------------

for part in $parts; do
    began=$(date +%s)
    before="$passed $failed $skipped"
    tabbed run "$(date -u '+%Y-%m-%d %H:%M')" "${device:-a GPU}" "${driver_version:-unknown}" "$commit" \
        "$(nproc)" "$(cut -d ' ' -f 1 /proc/loadavg)" "$kernels" "$part"
    ask_driver
    "run_$part"
    tabbed end $(($(date +%s) - began))
    [ "$before" != "$passed $failed $skipped" ] || result "$part" failed 'it checked nothing'
done
echo "gpu: $passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
