#!/bin/sh
# Runs a command with a PostgreSQL server of its own: Debian's, in a folder that goes with it, behind a Unix socket
# alone. The command finds the server's URL in KVRAIL_TEST_POSTGRES, and the folder in KVRAIL_TEST_POSTGRES_DIR.
#
#   sh tests/support/postgres.sh COMMAND [ARGUMENT…]
set -eu

bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
if [ -z "$bin" ]; then
    echo "postgres.sh: there is no /usr/lib/postgresql/*/bin: install postgresql"
    exit 77
fi
# The server refuses to run as root.
as_user=
if [ "$(id -u)" = 0 ]; then
    as_user="setpriv --reuid=postgres --regid=postgres --clear-groups"
fi
folder=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-postgres.XXXXXX")
finish() {
    # Not even fast: what is in it goes.
    $as_user "$bin/pg_ctl" -D "$folder/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$folder"
}
trap finish EXIT
trap 'exit 1' INT TERM
chmod 755 "$folder"
mkdir "$folder/data" "$folder/socket"
if [ -n "$as_user" ]; then
    chown postgres: "$folder/data" "$folder/socket"
fi
cd "$folder"
$as_user "$bin/initdb" -D data -U postgres -A trust --no-sync --no-instructions -E UTF8 --locale=C.UTF-8 >initdb.log ||
    {
        cat initdb.log
        exit 1
    }
# A test needs no power cut to be survived, unless it says so.
cat >>data/postgresql.conf <<END
listen_addresses = ''
unix_socket_directories = '$folder/socket'
fsync = ${KVRAIL_TEST_POSTGRES_FSYNC:-off}
shared_buffers = 64MB
max_connections = 40
log_min_duration_statement = 1000
END
: >server.log
chmod 666 server.log
$as_user "$bin/pg_ctl" -D data -w -l server.log start >/dev/null || {
    cat server.log
    exit 1
}
cd "$OLDPWD"
# For tests of a server that dies: "kill" ends all its processes at once, "start" starts it again.
cat >"$folder/control" <<END
#!/bin/sh
set -eu
case \$1 in
kill)
    first=\$(head -n 1 "$folder/data/postmaster.pid")
    all="\$first \$(cat /proc/\$first/task/*/children)"
    kill -9 \$all 2>/dev/null || true # some have ended meanwhile
    for process in \$all; do
        while [ -e /proc/\$process ]; do sleep 0.02; done
    done
    ;;
start) $as_user "$bin/pg_ctl" -D "$folder/data" -w -l "$folder/server.log" start >/dev/null ;;
esac
END
KVRAIL_TEST_POSTGRES="postgresql:///postgres?host=$folder/socket&user=postgres" KVRAIL_TEST_POSTGRES_DIR=$folder "$@"
