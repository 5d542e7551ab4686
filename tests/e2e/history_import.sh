#!/bin/sh
# Goal: an operator moves a scheduler's history from SQLite to PostgreSQL with the words of operations.md.
# Method: kvrail's own fleet fills SQLite; kvrail-scheduler imports it, and then shows it from PostgreSQL.
# Run by tests/support/postgres.sh.
set -eu
KVRAIL_TEST_SECURE=no
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler

mkdir "$work/old"
# Slow answers are no failure here.
"$bin/kvrail" bench query --transfers 2000 --agents 4 --rounds 1 --database "$work/old" >"$work/bench.log" 2>&1 || true
[ -s "$work/old/kvrail.db" ] || fail "the history was not made"
! "$bin/kvrail-scheduler" --import "$work/old/kvrail.db" >"$work/import.log" 2>&1 || fail "an import to nowhere"
file_has "$work/import.log" --database || fail "the refusal does not name --database"
"$bin/kvrail-scheduler" --database "$KVRAIL_TEST_POSTGRES" --import "$work/old/kvrail.db" >"$work/import.log" 2>&1 ||
    fail "the import"
grep -q '^transfers  *2000  *2000$' "$work/import.log" || fail "other counts"
file_has "$work/import.log" '2000 transfers were moved, 0 were there already' || fail "other words"

scheduler_options="--database $KVRAIL_TEST_POSTGRES --retention never"
start_scheduler
page=$(curl -sf "http://$scheduler/api/v1/transfers?limit=500" | grep -o '"id": *"[0-9a-f]*"' | sort -u | wc -l)
[ "$page" -eq 500 ] || fail "the first page has $page transfers"
curl -sf "http://$scheduler/readyz" >/dev/null || fail "it is not ready"
curl -sf "http://$scheduler/api/v1/summary" >"$work/summary"
grep -q '"done": *[1-9]' "$work/summary" || fail "no transfers in the summary: $(cat "$work/summary")"

echo "== a start that waits for another scheduler's migration ends by SIGTERM"
sql() { psql -qAt "$KVRAIL_TEST_POSTGRES" -c "$1"; }
waiting_locks() { [ "$(sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted = $1")" -ge "$2" ]; }
held=$(sql "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted")
sql "SELECT pg_advisory_lock(8170170170170170), pg_sleep(600)" &
locker=$!
started_pids="$started_pids $locker"
wait_for 20 waiting_locks true $((held + 1)) || fail "the lock of migrations is not held"
"$bin/kvrail-scheduler" --insecure --listen 127.0.0.1:0 --state-dir "$work/second" --database "$KVRAIL_TEST_POSTGRES" \
    2>"$work/second.log" &
second=$!
started_pids="$started_pids $second"
wait_for 20 waiting_locks false 1 || fail "the second scheduler does not wait: $(cat "$work/second.log")"
kill -TERM $second
status=0
wait $second || status=$?
[ $status = 0 ] || fail "it ended in $status: $(cat "$work/second.log")"
file_has "$work/second.log" "a signal ended the start" || fail "it does not say why: $(cat "$work/second.log")"
kill $locker
