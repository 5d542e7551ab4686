#!/bin/sh
# Goal: whatever happens to the scheduler's database, transfers go on, the scheduler says what is wrong and what to
# do, and what agents have kept meanwhile is stored afterwards.
# Method: real agents and a scheduler on a small disk of its own; the disk is filled, the database locked, moved away,
# and overwritten in the middle.
set -eu
if [ "${DATABASE_OWN_MOUNTS:-no}" = no ]; then
    own_mounts="unshare --mount"
    [ "$(id -u)" = 0 ] || own_mounts="$own_mounts --user --map-root-user"
    $own_mounts true 2>/dev/null || { echo "no mounts of its own can be had here"; exit 77; }
    # shellcheck disable=SC2086 # a command
    DATABASE_OWN_MOUNTS=yes exec $own_mounts sh "$0" "$@"
fi
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
for program in curl python3; do
    command -v $program >/dev/null || { echo "there is no $program" >&2; exit 77; }
done
database=$work/scheduler/kvrail.db
mkdir "$work/scheduler"
mount -t tmpfs -o size=80M tmpfs "$work/scheduler" || { echo "no small disk can be had here" >&2; exit 77; }
# Lazily: the programs end after the first of both.
trap 'umount -l "$work/scheduler" || true; stop_programs' EXIT
verified=0

# move COUNT: so many requests are verified, whatever the scheduler does.
move() {
    replay --requests "$1" --concurrency 2 --layers 4 --pool-bytes 16M || fail "the replay failed"
    expect verified "$1"
    verified=$((verified + $1))
}

# answers STATUS PATH TEXT: within some seconds.
answers() {
    wait_for 30 has_answered "$@" || fail "$2: not $1 with '$3', but: $(cat "$work/answer")"
}
has_answered() {
    [ "$(ask_scheduler "$2" -o "$work/answer" -w '%{http_code}')" = "$1" ] && grep -qF -- "$3" "$work/answer"
}

has_metric() { metrics | grep -qxF -- "$1"; }
metric() { wait_for 30 has_metric "$1" || fail "there is no '$1' in: $(metrics | grep "${1%%[ \{]*}")"; }

# has_problem NAME: the scheduler says so in every way, and shows no agent as lost.
has_problem() {
    answers 503 /readyz "\"problem\":\"$1\""
    answers 503 /healthz "\"problem\":\"$1\""
    grep -qF -- "$database" "$work/answer" || fail "the answer does not name the database: $(cat "$work/answer")"
    metric "kvrail_scheduler_problem{problem=\"$1\"} 1"
    metric "kvrail_ready 0"
    grep -q "no report .*$database" "$work/scheduler.log" || fail "the log does not say what to do with $database"
    ask_scheduler /api/v1/agents >"$work/answer"
    ! grep -q '"state":"lost"' "$work/answer" || fail "an agent is shown as lost: $(cat "$work/answer")"
}

# all_stored: what was verified so far is in the database, once, and nothing is wrong any more.
all_stored() {
    wait_for 60 has_stored || fail "not $verified transfers are done: $(cat "$work/answer")"
    answers 200 /readyz '"status":"ok"'
    answers 200 /healthz '"status":"ok"'
    metric "kvrail_ready 1"
    wait_for 10 has_stored || fail "more than $verified transfers are done: $(cat "$work/answer")"
}
has_stored() {
    ask_scheduler /api/v1/summary >"$work/answer"
    grep -q "\"done\":$verified,.*\"live\":0" "$work/answer"
}

start_all
answers 200 /readyz '"status":"ok"'
move 4
all_stored

echo "== the disk is full"
dd if=/dev/zero of="$work/scheduler/filler" bs=64k 2>/dev/null || true
move 6
has_problem disk_full
failed=$(metrics | sed -n 's/^kvrail_commits_failed_total //p')
[ "$failed" -gt 0 ] || fail "no failed commit was counted"
sleep $((7 * patience)) # longer than an agent may be silent
has_problem disk_full
rm "$work/scheduler/filler"
all_stored
in_scheduler_log() { grep -qF -- "$1" "$work/scheduler.log" || fail "the scheduler's log has no '$1'"; }
in_scheduler_log "disk_full is over"

echo "== another program locks it"
mkfifo "$work/release"
python3 -c 'import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("BEGIN IMMEDIATE")
open(sys.argv[2]).read()' "$database" "$work/release" &
locker=$!
started_pids="$started_pids $locker"
move 2
has_problem database_locked
: >"$work/release"
wait $locker
all_stored

echo "== its file is moved away, and comes back"
mv "$database" "$work/scheduler/elsewhere"
move 2
has_problem database_missing
mv "$work/scheduler/elsewhere" "$database"
all_stored

echo "== it is damaged when the scheduler starts"
kill -9 "$scheduler_pid"
wait "$scheduler_pid" 2>/dev/null || true
move 3 # they wait on the agents' disks
python3 -c 'import sqlite3, sys
sqlite3.connect(sys.argv[1]).execute("PRAGMA wal_checkpoint(TRUNCATE)")
with open(sys.argv[1], "r+b") as file:
    file.seek(4096 * 3)
    file.write(b"\xa5" * 4096 * 40)' "$database"
verified=3
start_scheduler
# The kill may have come before an agent heard that the two before them were stored: then it sends them again.
wait_for 20 has_stored || verified=5
all_stored
in_scheduler_log "kvrail.db is damaged"
[ "$(find "$work/scheduler" -name 'kvrail.db.damaged-*' | wc -l)" -ge 1 ] || fail "the damaged database is not kept"
move 2
all_stored

echo "== it is no database at all"
kill "$scheduler_pid"
wait "$scheduler_pid" || fail "the scheduler did not end well"
rm -f "$work/scheduler"/kvrail.db*
echo "this is no database, and has a line of text" >"$database"
verified=0
start_scheduler
grep -q 'no database' "$work/scheduler"/kvrail.db.damaged-* || fail "the file is not kept"
move 2
all_stored
echo "database: 6 passed, 0 failed, 0 skipped"
