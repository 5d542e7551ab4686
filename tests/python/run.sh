#!/bin/sh
# Goal: the Python package on this build's library. The test says what each file tries.
#
#   run.sh [--agents] FILE…: with two agents and a scheduler on loopback
set -eu
[ -z "${KVRAIL_SANITIZE:-}" ] || { echo "python3 cannot load a sanitized library" >&2; exit 77; }
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "no python3 of version 3.10 or later" >&2
    exit 77
fi
. "$KVRAIL_ROOT_DIR/tests/engines/environment.sh"
python_path
if [ "$1" != --agents ]; then
    exec python3 "$@"
fi
shift
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
watch_keys
start_all
export SOURCE_SOCKET="$work/source.sock" TARGET_SOCKET="$work/target.sock" SOURCE_AGENT="$source_agent" \
    SOURCE_PID="$prefill_pid" TARGET_PID="$decode_pid" SCHEDULER="$scheduler" SCHEDULER_TLS="$(scheduler_tls)"
status=0
python3 "$@" || status=$?
[ "$status" -eq 0 ] || [ "$status" -eq 77 ] || fail "$* failed"
expect_keys_hold
exit "$status"
