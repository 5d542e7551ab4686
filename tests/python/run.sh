#!/bin/sh
# Goal: the Python package on this build's library. The test says what each file tries.
#
#   run.sh [--agents|--tenants] FILE…: with two agents and a scheduler on loopback. --tenants: any engine may act
#   for red, the first, and for blue; of green only one of another user.
set -eu
[ -z "${KVRAIL_SANITIZE:-}" ] || { echo "python3 cannot load a sanitized library" >&2; exit 77; }
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
    echo "no python3 of version 3.10 or later" >&2
    exit 77
fi
. "$KVRAIL_ROOT_DIR/tests/engines/environment.sh"
python_path
case $1 in
--agents | --tenants) form=$1 ;;
*) exec python3 "$@" ;;
esac
shift
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
if [ "$form" = --tenants ]; then
    certificate_options="--tenant red --tenant blue --tenant green"
    prefill_options="--tenant red --tenant blue --tenant green=user:nobody"
    decode_options=$prefill_options
fi
watch_keys
start_all
export SOURCE_SOCKET="$work/source.sock" TARGET_SOCKET="$work/target.sock" SOURCE_AGENT="$source_agent" \
    SOURCE_PID="$prefill_pid" TARGET_PID="$decode_pid" SCHEDULER="$scheduler" SCHEDULER_TLS="$(scheduler_tls)"
status=0
python3 "$@" || status=$?
[ "$status" -eq 0 ] || [ "$status" -eq 77 ] || fail "$* failed"
expect_keys_hold
exit "$status"
