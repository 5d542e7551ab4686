#!/bin/sh
# kvrail in real engines: two servers of vLLM on the CPU, with the built agents between them, and the Python
# suites that need vLLM and torch.
#
#   sh tests/engines/run.sh
#
# Makes a virtual environment in build/engines with the packages of constraints.txt, from the index of pip's own
# configuration (3.5 GB). Environment:
#
#   KVRAIL_ENGINES_VENV   a virtual environment that has the packages already; nothing is installed
#   KVRAIL_BIN_DIR        the built programs (build/release/bin)
#   KVRAIL_LIBRARY        the built library (build/release/lib/libkvrail.so.1)
#
# Logs and outputs of the suites are kept in build/engines. The last line is "engines: N passed, N failed, N
# skipped". Exit status: 0; 1 when a test failed; 77 and the reason where the engines cannot run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
KVRAIL_ROOT_DIR=$(cd "$here/../.." && pwd)
KVRAIL_BIN_DIR=${KVRAIL_BIN_DIR:-$KVRAIL_ROOT_DIR/build/release/bin}
KVRAIL_LIBRARY=${KVRAIL_LIBRARY:-$KVRAIL_ROOT_DIR/build/release/lib/libkvrail.so.1}
export KVRAIL_ROOT_DIR KVRAIL_BIN_DIR KVRAIL_LIBRARY
build=$KVRAIL_ROOT_DIR/build/engines
memory_mb=8192

impossible() {
    echo "engines: cannot run here: $1" >&2
    exit 77
}

# The stamp is the list that was installed.
install_packages() {
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        impossible "there is no python3 of version 3.11 or later"
    ! cmp -s "$here/constraints.txt" "$build/installed" || return 0
    mkdir -p "$build"
    python3 -m venv --clear "$venv" >"$build/install.log" 2>&1 ||
        impossible "python3 -m venv failed, the package python3-venv may be missing (build/engines/install.log)"
    "$venv/bin/pip" install --no-deps -r "$here/constraints.txt" >>"$build/install.log" 2>&1 ||
        impossible "pip could not install: $(grep -m 1 '^ERROR' "$build/install.log") (build/engines/install.log)"
    cp "$here/constraints.txt" "$build/installed"
}

# add_counts FILE: those of the last line of a suite, "NAME: N passed, N failed, N skipped".
passed=0 failed=0 skipped=0
add_counts() {
    counts=$(sed -n 's/^[a-z_]*: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped$/\1 \2 \3/p' "$1" | tail -n 1)
    # shellcheck disable=SC2086 # three numbers
    set -- ${counts:-0 1 0}
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
}

# Two servers with the agents, which are killed and started again as two_servers.py asks.
run_servers() {
    mkfifo "$work/asks" "$work/answers"
    (
        exec 3>"$work/asks" 4<"$work/answers"
        exec "$venv/bin/python3" "$here/two_servers.py"
    ) >"$build/two_servers.out" 2>&1 &
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
    cat "$build/two_servers.out"
    add_counts "$build/two_servers.out"
}

available_mb=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
[ "$available_mb" -ge "$memory_mb" ] ||
    impossible "$available_mb MiB of memory are available, $memory_mb are needed"
[ "$(nproc)" -ge 2 ] || impossible "two servers need two cores"
venv=${KVRAIL_ENGINES_VENV:-$build/venv}
[ -n "${KVRAIL_ENGINES_VENV:-}" ] || install_packages
PATH=$venv/bin:$PATH
mkdir -p "$build"

for suite in vllm_scheduler vllm_tensors; do
    sh "$KVRAIL_ROOT_DIR/tests/python/run.sh" "$KVRAIL_ROOT_DIR/tests/python/test_$suite.py" \
        >"$build/$suite.out" 2>&1 </dev/null || true
    cat "$build/$suite.out"
    add_counts "$build/$suite.out"
done

. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all
export PYTHONPATH="$KVRAIL_ROOT_DIR/common/python:$KVRAIL_ROOT_DIR/tests/python" PYTHONDONTWRITEBYTECODE=1 \
    SOURCE_SOCKET="$work/source.sock" TARGET_SOCKET="$work/target.sock" KVRAIL_SCHEDULER="$scheduler" \
    WORK_FOLDER="$work"
run_servers
echo "engines: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
