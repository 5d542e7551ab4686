#!/bin/sh
# Fuzzes for long, in parts, and keeps what was found; then says which lines of the decoders the corpora reach.
#
#   sh tests/fuzz/long.sh run WORK SECONDS NAME…     each of these fuzzers for SECONDS, one after another
#   sh tests/fuzz/long.sh keep WORK NAME…            the inputs that reach something new go into tests/fuzz/corpus
#   sh tests/fuzz/long.sh coverage [PERCENT]         lines of each decoder that the corpora reach, and that they or
#                                                    the decoders' unit tests reach: PERCENT of these, 95 unless given
#
# NAME is a fuzzer without its prefix (message, session), or `all`. WORK holds the inputs and `minutes`, a line for
# each run: name, commit, seconds, runs, result. A second `run` goes on from the first one's inputs.
# `run` and `keep` use the build of the preset fuzz, `coverage` makes build/coverage. Exit status 1: a fuzzer found
# something, which lies in WORK, or a decoder has fewer lines.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
corpora=$root/tests/fuzz/corpus
programs=$root/build/fuzz/tests
export KVRAIL_ROOT_DIR="$root" # unit tests read files of the tree

usage() {
    sed -n '4,7s/^# *//p' "$0" >&2
    exit 2
}

# names NAME…: one a line.
names() {
    if [ "$*" = all ]; then
        for program in "$programs"/fuzz.*; do echo "${program##*/fuzz.}"; done
    else
        printf '%s\n' "$@"
    fi
}

run_one() {
    name=$1
    mkdir -p "$work/$name"
    log=$work/$name.log
    commit=$(git -C "$root" rev-parse --short HEAD)
    result=clean
    "$programs/fuzz.$name" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 \
        -artifact_prefix="$work/$name-" "$work/$name" "$corpora/$name" >"$log" 2>&1 || result=FOUND
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$name $commit $seconds ${runs:-0} $result" | tee -a "$work/minutes"
    [ "$result" = clean ]
}

keep_one() {
    name=$1
    [ -d "$work/$name" ] || return 0
    mkdir -p "$corpora/$name"
    "$programs/fuzz.$name" -merge=1 "$corpora/$name" "$work/$name" >"$work/$name.merge.log" 2>&1
    echo "$name: $(find "$corpora/$name" -type f | wc -l) inputs, $(du -sk "$corpora/$name" | cut -f1) KiB"
}

# What takes bytes from outside: frames, messages, packets, reports, traces, commands in shared memory, TLS, a
# database.
decoders="
common/wire/frame.c
common/wire/message.c
common/wire/message_session.c
common/wire/message_transfer.c
common/wire/message_values.c
common/wire/geometry.c
common/wire/engine_message.c
common/wire/engine_request.c
common/trace/geometry.c
common/trace/page_runs.c
common/trace/report.c
common/trace/report_answer.c
common/trace/report_packed.c
common/trace/spans.c
common/trace/trace_file.c
common/trace/import_csv.c
common/trace/import_json.c
common/trace/kvtrace_scan.c
common/kv/layout.c
common/kv/layout_planes.c
common/fabric/local/local_place.c
common/tls/tls_stream.c
scheduler/event_pack.c
"

# Their unit tests. What no input reaches is there: encoding, names, memory that ends.
units="unit.message unit.engine_message unit.session unit.report unit.geometry unit.page_runs unit.spans unit.import unit.kvtrace_scan unit.layout unit.fabric_local \
unit.local_copy unit.fabric_local_pages unit.tls_stream unit.synth unit.metrics unit.event_pack"

# shares FILE PROFILE ARGUMENT…: into FILE, of each decoder its name, lines, and those that were reached.
shares() {
    shares_file=$1 profile=$2
    shift 2
    # llvm-cov takes the first program without -object.
    shift
    llvm-cov report "$@" -instr-profile="$profile" >"$build/report.txt" 2>"$build/report.log"
    for file in $decoders; do
        # The columns of a file: name, regions, missed, cover, functions, missed, executed, lines, missed, cover. Of
        # the name llvm-cov leaves out what all have in common.
        awk -v file="$file" 'substr($1, length($1) - length(file) + 8) == substr(file, 8) {
            print file, $8, $8 - $9
        }' "$build/report.txt"
    done >"$shares_file"
    [ "$(wc -l <"$shares_file")" -eq "$(echo $decoders | wc -w)" ] || {
        echo "long.sh: a decoder has no line in that list" >&2
        exit 1
    }
}

coverage() {
    least=$1
    build=$root/build/coverage
    mkdir -p "$build"
    {
        cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang -DBUILD_TESTING=ON \
            -DKVRAIL_CUDA=OFF "-DCMAKE_C_FLAGS_DEBUG=-O1 -g -fprofile-instr-generate -fcoverage-mapping"
        # shellcheck disable=SC2086 # a list
        cmake --build "$build" --target fuzzers $units
    } >"$build/build.log" 2>&1 || {
        tail -n 20 "$build/build.log"
        exit 1
    }
    set --
    rm -f "$build"/*.profraw
    for program in "$build"/tests/fuzz.*; do
        name=${program##*/fuzz.}
        [ -d "$corpora/$name" ] || continue
        LLVM_PROFILE_FILE="$build/corpus.$name.profraw" "$program" "$corpora/$name" >"$build/$name.log" 2>&1
        set -- "$@" -object "$program"
    done
    for name in $units; do
        LLVM_PROFILE_FILE="$build/$name.profraw" "$build/tests/$name" >"$build/$name.log" 2>&1
        set -- "$@" -object "$build/tests/$name"
    done
    llvm-profdata merge -sparse "$build"/corpus.*.profraw -o "$build/corpora.profdata"
    llvm-profdata merge -sparse "$build"/*.profraw -o "$build/all.profdata"
    shares "$build/corpora.txt" "$build/corpora.profdata" "$@"
    shares "$build/all.txt" "$build/all.profdata" "$@"
    paste -d ' ' "$build/corpora.txt" "$build/all.txt" | awk -v least="$least" '{
        share = 100 * $6 / $5
        printf "%-36s %4d lines, corpora %5.1f %%, with unit tests %5.1f %%%s\n", $1, $2, 100 * $3 / $2, share,
            share < least ? "  TOO FEW" : ""
    }' | tee "$build/coverage.txt"
    ! grep -q 'TOO FEW' "$build/coverage.txt"
}

[ $# -ge 1 ] || usage
action=$1
shift
case $action in
run)
    [ $# -ge 3 ] || usage
    mkdir -p "$1"
    work=$(realpath "$1") seconds=$2
    shift 2
    status=0
    for name in $(names "$@"); do run_one "$name" || status=1; done
    exit "$status"
    ;;
keep)
    [ $# -ge 2 ] || usage
    work=$(realpath "$1")
    shift
    for name in $(names "$@"); do keep_one "$name"; done
    ;;
coverage) coverage "${1:-95}" ;;
*) usage ;;
esac
