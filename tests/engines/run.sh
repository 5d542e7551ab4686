#!/bin/sh
# kvrail in vLLM, on the CPU, with the built agents: its scheduler in every state of a request, on either side;
# then two servers, of a model with full attention and of one with windows. With KVRAIL_CAMPAIGN also the
# schedulers of older versions, and two servers that differ in ranks and block sizes.
#
#   sh tests/engines/run.sh
#
# environment.sh makes the virtual environment. Environment:
#
#   KVRAIL_ENGINES_VENV   a virtual environment that has the packages already; nothing is installed
#   KVRAIL_BIN_DIR        the built programs (build/release/bin)
#   KVRAIL_LIBRARY        the built library (build/release/lib/libkvrail.so.1)
#
# Logs and outputs of the suites are kept in build/engines. The last line is "engines: N passed, N failed, N
# skipped". Exit status: 0; 1 when a test failed; 77 and the reason where the engines cannot run.
set -eu
KVRAIL_ROOT_DIR=$(cd "$(dirname "$0")/../.." && pwd)
KVRAIL_BIN_DIR=${KVRAIL_BIN_DIR:-$KVRAIL_ROOT_DIR/build/release/bin}
KVRAIL_LIBRARY=${KVRAIL_LIBRARY:-$KVRAIL_ROOT_DIR/build/release/lib/libkvrail.so.1}
export KVRAIL_ROOT_DIR KVRAIL_BIN_DIR KVRAIL_LIBRARY
here=$KVRAIL_ROOT_DIR/tests/engines
build=$KVRAIL_ROOT_DIR/build/engines

# add_counts FILE: those of the last line of a suite, "NAME: N passed, N failed, N skipped".
passed=0 failed=0 skipped=0
add_counts() {
    counts=$(sed -n 's/^[a-z_]*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$1" | tail -n 1)
    # shellcheck disable=SC2086 # three numbers
    set -- ${counts:-0 1 0}
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# run_suite NAME [--agents|--tenants]: of tests/python
run_suite() {
    output=$build/$1.out
    sh "$KVRAIL_ROOT_DIR/tests/python/run.sh" ${2:-} "$KVRAIL_ROOT_DIR/tests/python/test_$1.py" \
        >"$output" 2>&1 </dev/null || true
    cat "$output"
    add_counts "$output"
}

# run_version VERSION: the suites that drive vLLM's scheduler, with an older one.
run_version() {
    if ! other_vllm "$1"; then
        echo "engines: vLLM $1 is skipped: $(why_not_installed)"
        skipped=$((skipped + 1))
        return
    fi
    echo "engines: vLLM $1"
    run_suite vllm_scheduler
    run_suite vllm_pair --agents
}

# run_servers FORM: two servers with the agents, which are killed and started again as two_servers.py asks.
run_servers() {
    output=$build/two_servers_$1.out
    rm -f "$work/asks" "$work/answers"
    mkfifo "$work/asks" "$work/answers"
    (
        exec 3>"$work/asks" 4<"$work/answers"
        exec "$venv/bin/python3" "$here/two_servers.py" "$1"
    ) >"$output" 2>&1 &
    servers_pid=$!
    started_pids="$started_pids $servers_pid"
    while read -r agent; do
        case $agent in
        prefill) killed=$prefill_pid ;;
        decode) killed=$decode_pid ;;
        *) fail "two_servers.py asks for '$agent'" ;;
        esac
        kill -9 "$killed"
        wait "$killed" || true
        "start_$agent"
        echo "$agent" >&4
    done <"$work/asks" 4>"$work/answers"
    wait "$servers_pid" || true
    cp "$work"/*.log "$build"
    cat "$output"
    add_counts "$output"
}

# Two servers that start their agents themselves.
run_started() {
    "$venv/bin/python3" "$here/started_agents.py" >"$build/started_agents.out" 2>&1 || true
    cp "$work"/started/*.log "$work"/started/kvrail-engines/*.log "$build" || true
    cat "$build/started_agents.out"
    add_counts "$build/started_agents.out"
}

# The demonstration of README.md, with fewer prompts: its exit status is its verdict.
run_demo() {
    if sh "$KVRAIL_ROOT_DIR/tests/demo.sh" --engine vllm --requests 8 >"$build/demo.out" 2>&1 </dev/null; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    cat "$build/demo.out"
}

. "$here/environment.sh"
need_machine 8192
make_environment

for suite in vllm_pool vllm_scheduler vllm_stats vllm_tensors; do
    run_suite "$suite"
done
run_suite vllm_pair --agents
run_suite vllm_tenants --tenants

if [ -n "${KVRAIL_CAMPAIGN:-}" ]; then
    for version in 0.30.0 0.28.0; do
        run_version "$version"
    done
    unset KVRAIL_ENGINES_VLLM
fi

. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
# Two servers leave no core to the agents: a pause of seconds is no dead peer.
prefill_options="--heartbeat 4s" decode_options=$prefill_options
start_all
python_path
export SOURCE_SOCKET="$work/source.sock" TARGET_SOCKET="$work/target.sock" KVRAIL_SCHEDULER="$scheduler" \
    WORK_FOLDER="$work" SCHEDULER_TLS="$(scheduler_tls)"
run_servers full
run_servers windows
if [ -n "${KVRAIL_CAMPAIGN:-}" ]; then
    run_servers ranks
    run_servers blocks
    run_started
fi
run_demo
echo "engines: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
