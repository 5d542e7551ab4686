#!/bin/sh
# Goal: over TCP a database must prove its name to the scheduler, and no log shows the scheduler's password.
# Method: a server with certificates of test CAs, one after the other; the scheduler's own defaults of TLS.
# Run by tests/support/postgres.sh.
set -eu
KVRAIL_TEST_SECURE=no
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler
for program in curl psql; do
    command -v $program >/dev/null || { echo "there is no $program" >&2; exit 77; }
done
data=$KVRAIL_TEST_POSTGRES_DIR/data
password=hunter2-of-the-database
admin=$KVRAIL_TEST_POSTGRES

sql() { psql -qAt "$admin" -c "SET log_min_duration_statement = -1" -c "$1"; }

# certificate CA NAME HOST: made by that CA, which is made too.
certificate() {
    [ -e "$work/$1" ] || "$bin/kvrail" certificates init "$work/$1" >>"$work/certificates.log" 2>&1 || fail "no CA $1"
    "$bin/kvrail" certificates issue "$work/$1" scheduler "$2" --host "$3" >>"$work/certificates.log" 2>&1 ||
        fail "no certificate $2 of $1"
}

# serve CA NAME: the server has that certificate for later connections.
serve() {
    cat "$work/$1/$2.pem" >"$data/server.crt"
    cat "$work/$1/$2-key.pem" >"$data/server.key"
    sql "SELECT pg_reload_conf()" >/dev/null
}

# refused WORDS URL: the scheduler does not start, and says why.
refused() {
    status=0
    timeout $((30 * patience)) "$bin/kvrail-scheduler" --insecure --listen 127.0.0.1:0 --state-dir "$work/refused" \
        --database "$2" --database-password-file "$work/password" >"$work/refused-$refusals.log" 2>&1 || status=$?
    [ $status = 1 ] || fail "$2 ended in $status: $(cat "$work/refused-$refusals.log")"
    grep -q "$1" "$work/refused-$refusals.log" || fail "no '$1' in: $(cat "$work/refused-$refusals.log")"
    refusals=$((refusals + 1))
}
refusals=0

certificate ca database localhost
certificate ca elsewhere db.elsewhere
certificate other database localhost
echo "$password" >"$work/password"
chmod 600 "$work/password"
sql "CREATE ROLE kvrail LOGIN PASSWORD '$password'"
sql "CREATE DATABASE kvrail OWNER kvrail"
printf 'local all all trust\nhostssl kvrail kvrail 127.0.0.1/32 scram-sha-256\n' >"$data/pg_hba.conf"
for file in server.crt server.key; do
    : >"$data/$file"
    chmod 600 "$data/$file"
    chown "$(stat -c %U:%G "$data")" "$data/$file"
done
serve ca database

# A port is free, or the server does not start there.
begin_server() {
    port=$(shuf -i 20000-32000 -n 1)
    sed -i "/^ssl = on/d; /^port = /d; s/^listen_addresses = .*/listen_addresses = '127.0.0.1'/" "$data/postgresql.conf"
    printf 'ssl = on\nport = %d\n' "$port" >>"$data/postgresql.conf"
    sh "$KVRAIL_TEST_POSTGRES_DIR/control" start
}
sh "$KVRAIL_TEST_POSTGRES_DIR/control" kill
until_met 5 begin_server || fail "the server does not start with TLS: $(cat "$KVRAIL_TEST_POSTGRES_DIR/server.log")"
admin="$KVRAIL_TEST_POSTGRES&port=$port"
url="postgresql://kvrail@localhost:$port/kvrail?hostaddr=127.0.0.1&sslrootcert=$work/ca/ca.pem"

echo "== a server that proves its name, by default and when it is asked for"
for mode in "" "&sslmode=verify-full"; do
    scheduler=
    scheduler_options="--database $url$mode --database-password-file $work/password"
    start_scheduler
    curl -sf "http://$scheduler/readyz" >/dev/null || fail "it is not ready"
    connections=$(sql "SELECT count(*) FROM pg_stat_activity JOIN pg_stat_ssl USING (pid)
        WHERE application_name = 'kvrail-scheduler' AND ssl AND version >= 'TLSv1.2'")
    [ "$connections" -ge 3 ] || fail "$connections connections have TLS"
    kill "$scheduler_pid"
    wait "$scheduler_pid" || fail "the scheduler did not end well"
done

echo "== another server, or one that cannot say that it is this one"
refused 'root certificate file .* does not exist' "postgresql://kvrail@localhost:$port/kvrail?hostaddr=127.0.0.1"
refused 'no encryption' "$url&sslmode=disable"
serve other database
refused 'certificate verify failed' "$url"
serve ca elsewhere
refused 'does not match host name' "$url"
serve ca database
echo wrong >"$work/password"
refused 'password authentication failed' "$url"

! grep -rlF "$password" "$work" --include='*.log' || fail "a log has the password"
! grep -F "$password" "$KVRAIL_TEST_POSTGRES_DIR/server.log" || fail "the server's log has the password"
echo "e2e.postgres_tls: passed"
