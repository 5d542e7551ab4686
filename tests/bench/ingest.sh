#!/bin/sh
# Goal: `kvrail bench ingest` prints all promised figures, keeps the database of --database, finds out
# that rows are missing, and refuses what it cannot measure. RESULTS.md has the figures.
set -eu
kvrail=$KVRAIL_BIN_DIR/kvrail
work=$(mktemp -d "${TMPDIR:-/tmp}/bench-ingest.XXXXXX")
scheduler=
trap '[ -z "$scheduler" ] || kill "$scheduler"; rm -rf "$work"' EXIT

fail() {
    echo "ingest: $1" >&2
    exit 1
}

figure() {
    sed -n "s/^ *\"$1\": \([0-9.e+-]*\),\{0,1\}$/\1/p" "$work/figures.json"
}

# refused STATUS WORDS OPTION…
refused() {
    wanted=$1
    words=$2
    shift 2
    status=0
    "$kvrail" bench ingest --transfers 200 "$@" >"$work/table" 2>"$work/errors" || status=$?
    [ "$status" = "$wanted" ] || fail "$* ended in $status instead of $wanted: $(cat "$work/errors")"
    grep -q -- "$words" "$work/errors" || fail "$* was refused without '$words': $(cat "$work/errors")"
}

"$kvrail" bench ingest --agents 40 --connections 8 --transfers 2000 --database "$work/first" \
    --json "$work/figures.json" >"$work/table"
grep -q 'events a second of 40 agents' "$work/table" || fail "no table beside the file of --json"
[ "$(figure events)" = 28000 ] || fail "$(figure events) events of 2000 transfers"
[ "$(figure schedulers)" = 1 ] || fail "$(figure schedulers) schedulers instead of 1"
for key in events_per_s raw_inserts_per_s ratio p99_ack_ms db_bytes reports commits; do
    [ "$(figure $key)" != "" ] || fail "no $key in the JSON"
    case $(figure $key) in 0 | 0.0) fail "$key is 0" ;; esac
done
[ -s "$work/first/kvrail.db" ] || fail "the database of --database is gone"
[ ! -e "$work/first/inserts" ] || fail "the database of the plain inserts is still there"

# A second run in the same folder counts its own rows.
"$kvrail" bench ingest --transfers 200 --database "$work/first" --json >"$work/figures.json"
[ "$(figure events)" = 2800 ] || fail "$(figure events) events of 200 transfers"

# Of a scheduler with another database nothing is there.
"$KVRAIL_BIN_DIR/kvrail-scheduler" --insecure --listen 127.0.0.1:0 --port-file "$work/port" \
    --state-dir "$work/second" 2>"$work/scheduler.log" &
scheduler=$!
tries=0
until [ -s "$work/port" ]; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || fail "the scheduler does not start"
    sleep 0.1
done
address=127.0.0.1:$(cat "$work/port")
refused 1 'the database has 0 of 2800 events' --scheduler "$address" --database "$work/first"
"$kvrail" bench ingest --transfers 200 --scheduler "$address" --database "$work/second" >"$work/table"

refused 2 'needs --database postgresql://' --schedulers 2
refused 2 'needs --database postgresql://' --schedulers 2 --database "$work/first"
refused 2 'needs --database postgresql://' --schedulers 2 --database postgresql://host/kvrail --scheduler "$address"
refused 2 '--scheduler needs --database' --scheduler "$address"
refused 2 'must be even' --agents 3

echo "bench.ingest: passed"
