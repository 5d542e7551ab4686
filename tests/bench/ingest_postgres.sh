#!/bin/sh
# Goal: `kvrail bench ingest` measures one scheduler and several with a database of PostgreSQL, finds out that rows are
# missing, and leaves no plain insert behind.
# Run by tests/support/postgres.sh.
set -eu
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/bench-ingest.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "ingest_postgres: $1" >&2
    exit 1
}

figure() {
    sed -n "s/^ *\"$1\": \([0-9.e+-]*\),\{0,1\}$/\1/p" "$work/figures.json"
}

sql() {
    psql -qAt "$KVRAIL_TEST_POSTGRES" -c "$1"
}

# ingest OPTION…
ingest() {
    "$kvrail" bench ingest --transfers 400 --database "$KVRAIL_TEST_POSTGRES" "$@"
}

for schedulers in 1 3; do
    ingest --schedulers $schedulers --json "$work/figures.json" >"$work/table" 2>"$work/errors" ||
        fail "with $schedulers schedulers: $(cat "$work/errors")"
    [ ! -s "$work/errors" ] || fail "with $schedulers schedulers it says: $(cat "$work/errors")"
    [ "$(figure events)" = 5600 ] || fail "$(figure events) events of 400 transfers"
    [ "$(figure schedulers)" = $schedulers ] || fail "$(figure schedulers) schedulers instead of $schedulers"
    for key in events_per_s raw_inserts_per_s ratio p99_ack_ms db_bytes reports commits scheduler_cpu_s; do
        [ "$(figure $key)" != "" ] || fail "no $key in the JSON"
        case $(figure $key) in 0 | 0.0) fail "$key is 0" ;; esac
    done
    [ "$(sql "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'kvrail_bench%'")" = 0 ] ||
        fail "the schema of the plain inserts is still there"
done
[ "$(sql 'SELECT count(*) FROM kvrail.transfers')" = 800 ] || fail "the rows of both runs are not kept"

# One that was killed has left its schema: another one's inserts may be there.
sql 'CREATE SCHEMA kvrail_bench_inserts'
! ingest >"$work/table" 2>"$work/errors" || fail "it uses a schema that is there"
grep -q 'DROP SCHEMA kvrail_bench_inserts' "$work/errors" || fail "the refusal does not say what to do"
sql 'DROP SCHEMA kvrail_bench_inserts'

# A row that goes while it runs is missed.
sql "CREATE FUNCTION kvrail.lose() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
sql "CREATE TRIGGER lose BEFORE INSERT ON kvrail.events FOR EACH ROW WHEN (NEW.id % 2 = 0)
     EXECUTE FUNCTION kvrail.lose()"
! ingest >"$work/table" 2>"$work/errors" || fail "lost rows are not missed"
grep -q 'the database has [0-9]* of 5600 events' "$work/errors" || fail "it says: $(cat "$work/errors")"

echo "bench.ingest_postgres: passed"
