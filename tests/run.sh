#!/bin/sh
# Builds everything and runs every test, from a clone, on Debian 12, as root or with sudo.
#
#   sh tests/run.sh [--campaign] [--stages "NAME…"] [--libfabric PREFIX] [--libfabric-run PREFIX] [ctest arguments]
#
# Stages: release engines clang asan tsan fuzz lint libfabric2 wheel verbs. All run, whatever fails before; the exit
# status is 0 only when nothing failed. The last line counts the tests of all stages, and each stage that
# runs none (clang, lint's parts) as one. A stage that cannot run here (engines, libfabric2, wheel, verbs) says why and
# counts as one that was skipped. --campaign runs the same with the large numbers.
#
# --libfabric: builds with the libfabric of that prefix (1.17 to 2.x) and runs with it; KVRAIL_LIBFABRIC_ROOT of
# the environment does the same. --libfabric-run: builds as before, and runs with the libfabric of that
# prefix, which must be as new as that of the build. libfabric2, wheel and verbs are skipped then.
set -eu

called_from=$(pwd)
cd "$(dirname "$0")/.."
root=$(pwd)
all_stages="release engines clang asan tsan fuzz lint libfabric2 wheel verbs"
stages=$all_stages
campaign=
libfabric=${KVRAIL_LIBFABRIC_ROOT:-}
libfabric_run=

# absolute OPTION PATH: the path of an option, which may be relative to where this script was called.
absolute() {
    case $2 in
    '')
        echo "run.sh: $1 lacks its value: the prefix of a libfabric, as /opt/amazon/efa" >&2
        exit 2
        ;;
    /*) echo "$2" ;;
    *) echo "$called_from/$2" ;;
    esac
}

# library_of OPTION PREFIX: the folder of its shared library.
library_of() {
    for folder in "$2/lib" "$2/lib64" "$2"/lib/*-linux-gnu*; do
        if [ -e "$folder/libfabric.so.1" ]; then
            echo "$folder"
            return 0
        fi
    done
    echo "run.sh: $1 is '$2', but there is no libfabric.so.1 in lib or lib64 of it: name the prefix where a" \
        "libfabric is installed" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --campaign) campaign=1 ;;
    --stages)
        if [ -z "${2:-}" ]; then
            echo "run.sh: --stages lacks its value: some of $stages" >&2
            exit 2
        fi
        stages=$2
        shift
        ;;
    --libfabric | --libfabric-run)
        prefix=$(absolute "$1" "${2:-}")
        library=$(library_of "$1" "$prefix")
        if [ "$1" = --libfabric ]; then libfabric=$prefix; else libfabric_run=$library; fi
        shift
        ;;
    -h | --help)
        sed -n '2,14s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    *) break ;;
    esac
    shift
done
for stage in $stages; do
    case " $all_stages " in
    *" $stage "*) ;;
    *)
        echo "run.sh: there is no stage '$stage'; there are $all_stages" >&2
        exit 2
        ;;
    esac
done

unset KVRAIL_CONFIG KVRAIL_LIBFABRIC_ROOT
library=$libfabric_run # the folder that tests must load libfabric from; empty = the loader's choice
if [ -n "$libfabric_run" ]; then
    export KVRAIL_LIBFABRIC="$libfabric_run"
elif [ -n "$libfabric" ]; then
    library=$(library_of KVRAIL_LIBFABRIC_ROOT "$libfabric")
    unset KVRAIL_LIBFABRIC
fi
if [ -n "$campaign" ]; then
    export KVRAIL_CAMPAIGN=1
    timeout_factor=20
    fuzz_seconds=300
else
    timeout_factor=1
    fuzz_seconds=10
fi
export PATH="$root/build/tools:$PATH"
mkdir -p build/logs
passed=0
failed=0
skipped=0
summary=
programs="kvr_client prefill-agent decode-agent kvrail-scheduler kvrail"

# In the log; its end on the terminal when it fails.
quietly() {
    log=$root/build/logs/$1.log
    shift
    "$@" >"$log" 2>&1 </dev/null || {
        code=$?
        tail -n 60 "$log"
        return $code
    }
}

# configure PRESET TIMEOUT_SCALE [argument…]
configure() {
    preset=$1
    scale=$(($2 * timeout_factor))
    shift 2
    quietly "configure-$preset" cmake --preset "$preset" -DBUILD_TESTING=ON \
        "-DKVRAIL_TIMEOUT_SCALE=$scale" "-DKVRAIL_LIBFABRIC_ROOT=$libfabric" "$@"
}

build() {
    quietly "build-$1" cmake --build --preset "$1"
}

count_check() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

# count FILE PATTERN: cases of a JUnit file; its text has no '<' of its own.
count() {
    grep -c "$2" "$1" || true
}

# run_tests PRESET [ctest argument…]: counts what ctest reports; a test that could not run failed.
run_tests() {
    preset=$1
    shift
    report=$root/build/logs/$preset.xml
    rm -f "$report"
    status=0
    # TSan of gcc 12 cannot live with the wide address randomisation of newer kernels.
    wrap=
    if [ "$preset" = tsan ] && setarch -R true 2>/dev/null; then
        wrap="setarch -R"
    fi
    # Many tests wait most of the time, so there are two more than cores.
    $wrap ctest --test-dir "build/$preset" -j "$(($(nproc) + 2))" --output-on-failure --no-label-summary \
        --output-junit "$report" "$@" </dev/null || status=1
    if [ -f "$report" ]; then
        all=$(count "$report" '^	<testcase ')
        fine=$(count "$report" '^	<testcase .* status="run"')
        left=$(count "$report" '^		<skipped message="SKIP_RETURN_CODE')
        passed=$((passed + fine))
        skipped=$((skipped + left))
        failed=$((failed + all - fine - left))
    elif [ "$status" -ne 0 ]; then
        failed=$((failed + 1))
    fi
    return "$status"
}

# Fails where programs load another libfabric than the one that was asked for.
loads_libfabric() {
    loaded=$("build/$1/bin/kvrail" topo | sed -n '/^libfabric .* of .*, kvrail is built with/p')
    echo "$1: ${loaded:-no libfabric is loaded}"
    case $loaded in
    *" of $library/"*) ;;
    *) [ -z "$library" ] ;;
    esac
}

stage_release() {
    if ! configure release 1 || ! build release || ! loads_libfabric release; then
        count_check 1
        return 1
    fi
    run_tests release "$@"
}

stage_clang() {
    if ! configure clang 1 || ! build clang; then
        count_check 1
        return 1
    fi
    count_check 0
}

# What measures times, CPU and memory measures the sanitizer there, and so does the share of each rail.
measures="idle|bench|_cut|unreachable|rail_said|freeze|e2e\.(planes|faults$|soak$|rail_ports|filter$|http_abuse|slow_rail)"
# The sanitizers slow every case: fewer of them, unless this is a campaign. Left out are tests that differ from
# another in the provider alone, and those that start many programs to look at files, texts and answers.
fewer="kill_.*_(local|mixed)|(restart|fleet|neighbours)_local|revoked_kill|revoked_cancel_mixed|containers"
fewer="$fewer|e2e\.(rotation|tools|signals|tickets|secrets|mapping|kept_keys|wanted|insecure|topo|doctor|certificates)"
fewer="$fewer|e2e\.(prometheus|why|engine_access|manifest|cores|libfabric|same_host|regions|replay_checks)|^ui"
fewer="$fewer|e2e\.(replay_placement|tls|tenants|database|http_attacks|staged_mixed|neighbours_mixed)|client_silent"
# Tests of the sources' text say the same of every build.
fewer="$fewer|^build"
fewer_threads="e2e\.(crowd|refusals|history_import)|postgres\.(api|order|rollups|store)"
[ -z "$campaign" ] || fewer=_none fewer_threads=_none
stage_asan() {
    if ! configure asan 4 || ! build asan; then
        count_check 1
        return 1
    fi
    KVRAIL_SCALE=20 run_tests asan -E "$measures|$fewer" "$@"
}

stage_tsan() {
    if ! configure tsan 6 || ! build tsan; then
        count_check 1
        return 1
    fi
    # TSan also stretches the times for which some tests wait. It finds nothing in tests of one thread. ASan and the
    # fuzzers have the decoders that garbage reaches.
    one_thread="^sim|plan_property|rail_group_connections|unit\.(compare|rollups|sim_host|store_import|prune|virtual)"
    KVRAIL_SCALE=10 run_tests tsan \
        -E "garbage|kill_.*_agent|replay_checks|^ui|$one_thread|$measures|$fewer|$fewer_threads" "$@"
}

stage_fuzz() {
    if ! configure fuzz 1 "-DKVRAIL_FUZZ_SECONDS=$fuzz_seconds" || ! build fuzz; then
        count_check 1
        return 1
    fi
    run_tests fuzz -L fuzz "$@"
}

check() {
    status=0
    quietly "lint-$1" sh tests/support/lint.sh "$1" || status=$?
    if [ "$status" -eq 77 ]; then
        skipped=$((skipped + 1))
        return 0
    fi
    count_check "$status"
    if [ "$status" -ne 0 ]; then
        lint_status=1
        echo "lint: $1 failed (sh tests/support/lint.sh $1)"
    fi
}

stage_lint() {
    lint_status=0
    for part in format spelling words cppcheck scripts oldest arm64; do
        check "$part"
    done
    if ! quietly configure-tidy cmake --preset tidy -DBUILD_TESTING=OFF; then
        count_check 1
        return 1
    fi
    check tidy
    [ -z "$campaign" ] || check analyzer
    return "$lint_status"
}

skip_stage() {
    skipped=$((skipped + 1))
    why_skipped=$1
}

# suite NAME: tests/NAME/run.sh. Its last line is "NAME: N passed, N failed, N skipped". Where it cannot run, it
# ends with 77 and says why in its last line: the stage is skipped.
suite() {
    log=$root/build/logs/$1.log
    {
        status=0
        sh "tests/$1/run.sh" </dev/null 2>&1 || status=$?
        echo "$status" >"$log.status"
    } | tee "$log"
    status=$(cat "$log.status")
    if [ "$status" -eq 77 ]; then
        skip_stage "$(tail -n 1 "$log")"
        return 77
    fi
    counts=$(sed -n "s/^$1: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped\$/\1 \2 \3/p" "$log")
    # shellcheck disable=SC2086 # three numbers
    set -- ${counts:-0 1 0}
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
    return "$status"
}

# release_suite NAME: with the release build.
release_suite() {
    if ! configure release 1 || ! build release; then
        count_check 1
        return 1
    fi
    suite "$1"
}

stage_engines() { release_suite engines; }

# In a VM.
stage_verbs() { of_no_other_libfabric && release_suite verbs; }

# Skips a stage that names its own libfabric where another was asked for.
of_no_other_libfabric() {
    [ -n "$library" ] || return 0
    skip_stage "another libfabric was asked for"
    return 77
}

# build_libfabric2 [TARGET…]: the libfabric of Debian 13, the programs with it, and those targets.
build_libfabric2() {
    of_no_other_libfabric || return
    status=0
    quietly debian13_libfabric sh tests/support/debian13_libfabric.sh || status=$?
    if [ "$status" -eq 77 ]; then
        skip_stage "$(tail -n 1 "$log")"
        return 77
    fi
    library=$root/build/debian13/libfabric/lib
    # shellcheck disable=SC2086 # a list of targets
    [ "$status" -eq 0 ] && configure libfabric2 1 "-DKVRAIL_LIBFABRIC_ROOT=${library%/lib}" &&
        quietly build-libfabric2 cmake --build --preset libfabric2 --target $programs "$@" &&
        loads_libfabric libfabric2 || status=1
    library=
    [ "$status" -eq 0 ] || count_check 1
    return "$status"
}

# The tests of fabric, and the demo.
stage_libfabric2() {
    build_libfabric2 fabric_tests || return
    failures=0
    run_tests libfabric2 "$@" -R '^(fabric|unit\.(fabric|region|rail_ports)|e2e\.libfabric)' -E conformance_local ||
        failures=1
    status=0
    quietly demo-libfabric2 env KVRAIL_BIN_DIR="$root/build/libfabric2/bin" sh tests/demo.sh --requests 100 || status=1
    count_check "$status"
    tail -n 1 "$log"
    [ $((failures + status)) -eq 0 ]
}

stage_wheel() {
    build_libfabric2 || return
    suite wheel
}

minutes() {
    echo "$(($1 / 60)).$(($1 % 60 * 10 / 60))"
}

run_stage() {
    name=$1
    shift
    began=$(date +%s)
    echo "== $name"
    ended=0
    why_skipped=
    "$@" || ended=$?
    case $ended in
    0) verdict=ok ;;
    77) verdict=skipped ;;
    *) verdict=FAILED ;;
    esac
    took=$(($(date +%s) - began))
    line=$(printf '%-8s %-7s %5s min' "$name" "$verdict" "$(minutes $took)")${why_skipped:+  $why_skipped}
    echo "== $line"
    summary="$summary
$line"
    if [ "$verdict" = FAILED ]; then
        any_failed=1
    fi
}

any_failed=0
start=$(date +%s)
run_stage install sh tests/support/install.sh build test
for stage in $stages; do
    run_stage "$stage" "stage_$stage" "$@"
done
printf '\nStages:%s\nin all           %5s min\n\n' "$summary" "$(minutes $(($(date +%s) - start)))"
echo "kvrail: $passed passed, $failed failed, $skipped skipped"
if [ "$any_failed" -ne 0 ] || [ "$failed" -ne 0 ]; then
    exit 1
fi
