#!/bin/sh
# Goal: clients that abuse the scheduler's port keep no other client out, and cost bounded memory. Method: 500 slow clients,
# 1,500 idle ones, and clients that send huge headers, huge bodies and tricks in paths, from 40 addresses; beside
# them a client that asks as a dashboard does, and a replay. No ask and no transfer fails.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
secure=no
start_all
ulimit -n 4096 || { echo "too few descriptors for so many clients" >&2; exit 77; }
seconds=$([ "${KVRAIL_CAMPAIGN:-0}" = 1 ] && echo 60 || echo 6)
python3 "$KVRAIL_ROOT_DIR/tests/support/http_abuse.py" "${scheduler##*:}" "$scheduler_pid" "$seconds" 500 1500 \
    >"$work/abuse.json" 2>"$work/abuse.log" &
abuse_pid=$!
started_pids="$started_pids $abuse_pid"
replay --requests 60 --concurrency 4
expect failed 0
expect bytes_wrong 0
wait "$abuse_pid" || fail "an ask failed: $(cat "$work/abuse.json" "$work/abuse.log")"
cat "$work/abuse.json"
more=$(sed -n 's/.*"more_kib": \([0-9-]*\).*/\1/p' "$work/abuse.json")
# Connections keep 32 KiB each, and at most 1,536 are there; a body at most 4 MiB, all bodies 64.
[ "$more" -lt 131072 ] || fail "the scheduler took $more KiB more"
echo "e2e.http_abuse: passed"
