#!/bin/sh
# Goal: an agent that cannot work says so in one sentence, with the limit or value and the remedy, and
# leaves with the right exit status. Method: start it wrongly in every way that operators do.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail prefill-agent decode-agent kvrail-scheduler

# refused STATUS WORD… -- PROGRAM ARGUMENT…: ends with STATUS and says every WORD.
refused() {
    wanted=$1
    shift
    words=
    while [ "$1" != -- ]; do
        words="$words$1
"
        shift
    done
    shift
    status=0
    timeout 20 "$@" >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" = "$wanted" ] || fail "$*: exit $status, not $wanted: $(cat "$work/out")"
    printf %s "$words" | while IFS= read -r word; do
        grep -qF -- "$word" "$work/out" || {
            echo "$*: '$word' is not in: $(cat "$work/out")" >&2
            exit 1
        }
    done || exit 1
}

# Without certificates and --insecure none listens, not on loopback either.
for program in "$bin/prefill-agent --name a --engine-socket $work/a.sock" \
    "$bin/decode-agent --name a --engine-socket $work/a.sock" "$bin/kvrail-scheduler --state-dir $work/none"; do
    # shellcheck disable=SC2086 # a program and its arguments
    refused 2 '`kvrail certificates`' --tls-certificate --tls-key --tls-ca --insecure -- $program
    [ ! -e "$work/a.sock" ] && [ ! -e "$work/none" ] || fail "$program has begun to work"
done

common="--insecure --name a --engine-socket $work/a.sock"
prefill="$bin/prefill-agent $common --listen 127.0.0.1:0"
decode="$bin/decode-agent $common"

for command in "$prefill" "$decode" "$bin/kvrail-scheduler"; do
    # shellcheck disable=SC2086 # a program and its arguments
    refused 2 '--tls-key without --tls-certificate and --tls-ca' -- $command --tls-key k.pem
done
refused 2 --listen 'must be host, host:port' -- "$bin/prefill-agent" $common --listen foo:
refused 2 --listen 'must be host, host:port' -- "$bin/prefill-agent" $common --listen 127.0.0.1:70000
refused 2 --scheduler 'must be host, host:port' 9470 -- $decode --scheduler foo:
refused 2 --scheduler 'must be host, host:port' 9470 -- $decode --scheduler https://foo/bar
refused 2 --advertise 'bad host' -- $prefill --advertise 'bad host'
refused 2 --name printed -- "$bin/decode-agent" --name "$(printf 'a\001')" --engine-socket "$work/a.sock"
refused 2 --engine-user 'no such user' -- $prefill --engine-user no-such-user
refused 2 --engine-group 'no such group' -- $decode --engine-group no-such-group
refused 2 --provider carrier-pigeon tcp -- $decode --provider carrier-pigeon
# A provider that earlier versions had: one sentence says what to use, wherever its name stands.
removed='provider shm was removed: use local'
printf '[rails]\nprovider = shm\n' >"$work/shm.ini"
mkdir "$work/calibrated"
printf '{"provider": "shm", "libfabric": "1.17.0", "imm_iov": 4, "imm_rma_iov": 4, "pieces": 4,
    "chunk_bytes_max": 1048576}' >"$work/calibrated/calibration-local.json"
for command in "$decode --provider shm" "$decode --provider tcp+shm" "$prefill --provider shm+local" \
    "$decode --config $work/shm.ini" "env KVRAIL_PROVIDER=shm $decode" "$bin/kvrail topo --provider shm" \
    "$bin/kvrail bench push --provider shm" \
    "$decode --provider local --state-dir $work/calibrated"; do
    # shellcheck disable=SC2086 # a program and its arguments
    refused 2 "$removed" -- $command
    [ "$(grep -vc ' --insecure: ' "$work/out")" = 1 ] || fail "$command is not refused in one line: $(cat "$work/out")"
done
# An option that earlier versions had, in an old file and on an old command line.
no_option='option want-timeout was removed, and had no effect: leave it out'
printf '[transfers]\nlease = 30s\nwant-timeout = 60s\n' >"$work/want.ini"
refused 2 "$no_option" "$work/want.ini line 3" -- $prefill --config "$work/want.ini"
refused 2 "$no_option" -- $prefill --want-timeout 60s
refused 2 --prefill-agent nowhere: 9480 -- $decode --prefill-agent nowhere:
refused 2 --heartbeat never -- $decode --heartbeat never
refused 2 --allocation-bytes 5000 4096 -- "$bin/kvrail" replay --source-socket "$work/a.sock" \
    --target-socket "$work/b.sock" --source-agent 127.0.0.1:1 --device-memory both --allocation-bytes 5000
refused 2 --wibble -- $decode --wibble
refused 2 --name -- "$bin/decode-agent" --engine-socket "$work/a.sock"
refused 2 missing.ini -- $decode --config "$work/missing.ini"
refused 1 10.255.255.1 -- $decode --rail 10.255.255.1
refused 1 /nowhere/state -- $decode --state-dir /nowhere/state
refused 1 /nowhere/a.sock -- "$bin/decode-agent" --insecure --name a --engine-socket /nowhere/a.sock
refused 1 efa -- $decode --provider efa
: >"$work/file"
refused 1 "$work/file" -- "$bin/decode-agent" --insecure --name a --engine-socket "$work/file"
refused 1 RLIMIT_NOFILE 'ulimit -n' -- sh -c "ulimit -n 200; exec $decode"

# ---- limits of the machine: the limit, what it allows, what is needed, the remedy
scheduler="$bin/kvrail-scheduler --insecure --listen 127.0.0.1:0 --state-dir $work/scheduler"
refused 1 RLIMIT_NOFILE 'allows 200' 'ulimit -n' LimitNOFILE -- sh -c "ulimit -n 200; exec $scheduler"
# small FOLDER COMMAND…: with one MiB in all below that folder.
own_mounts="unshare --mount"
[ "$(id -u)" = 0 ] || own_mounts="$own_mounts --user --map-root-user"
small() {
    folder=$1
    shift
    refused 1 "$folder" '1 MiB left' '64 MiB are needed' 'free some' -- $own_mounts sh -c \
        "mount -t tmpfs -o size=1M tmpfs '$folder' && exec $*"
}

mkdir -p "$work/prefill" "$work/decode" "$work/scheduler"
if $own_mounts mount -t tmpfs -o size=1M tmpfs "$work/decode" 2>"$work/mount"; then
    small "$work/decode" "$decode --state-dir $work/decode"
    small "$work/prefill" "$prefill --state-dir $work/prefill"
    small "$work/scheduler" "$scheduler"
else
    echo "small file systems not tried: $(cat "$work/mount")"
fi

# ---- folders and files
refused 2 --log-file /nowhere/log -- $decode --log-file /nowhere/log
refused 1 --run-dir /nowhere/run -- "$bin/decode-agent" --insecure --name a --run-dir /nowhere/run
refused 1 --run-dir "$work/port.file" -- "$bin/decode-agent" --insecure --name a --run-dir "$work/port.file/run"
mkdir -m 777 "$work/everybody"
refused 1 --run-dir 'chmod 0700' -- "$bin/decode-agent" --insecure --name a --run-dir "$work/everybody"
refused 2 --name a/b --engine-socket -- "$bin/decode-agent" --insecure --name a/b --run-dir "$work/run"
refused 1 'shorter --run-dir' '107 characters' -- "$bin/decode-agent" --insecure \
    --name a123456789b123456789c123456789d123456789e123456789 \
    --run-dir "$work/a123456789b123456789c123456789d123456789e123456789"

# An address in use, and a socket that a live agent has.
start prefill $prefill --port-file "$work/port"
await prefill "$work/port"
refused 1 127.0.0.1 -- "$bin/prefill-agent" --insecure --name b --engine-socket "$work/b.sock" \
    --listen "127.0.0.1:$(cat "$work/port")"
refused 1 "$work/a.sock" -- $decode

# A socket that a dead one left is replaced.
kill -9 "$started"
wait "$started" 2>/dev/null || true
[ -S "$work/a.sock" ] || fail "the dead agent's socket should still be there"
start again $prefill --port-file "$work/port2"
await again "$work/port2"
kill "$started"
wait "$started" || fail "SIGTERM must end it with status 0"
[ ! -e "$work/a.sock" ] || fail "the socket is left behind"

# A database in which an agent of an earlier version reported a provider that was removed; the names have
# the same length, so that one can be written over the other.
rm -f "$work/port" "$work/port3"
start reported $scheduler --port-file "$work/port3"
await reported "$work/port3"
reported=$started
start reporter $prefill --provider tcp --port-file "$work/port" --scheduler "127.0.0.1:$(cat "$work/port3")"
await reporter "$work/port"
shows_provider() { curl -s "http://127.0.0.1:$(cat "$work/port3")/api/v1/agents" | grep -q '"provider": *"tcp"'; }
wait_for 30 shows_provider || fail "the scheduler does not show the agent's provider"
kill "$started" "$reported"
wait "$started" "$reported" || fail "SIGTERM must end the scheduler with status 0"
LC_ALL=C sed -i s/tcp/shm/g "$work/scheduler/kvrail.db"
refused 2 "$removed" "$work/scheduler/kvrail.db" -- $scheduler
echo "e2e.refusals: passed"
