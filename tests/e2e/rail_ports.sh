#!/bin/sh
# Goal: with --rail-ports every rail listens inside that range and nowhere else. Two agents of a host share
# a range, and replace endpoints inside it. An agent refuses a range that is too small or full.
# Method: a replay, during which the prefill-agent is killed, so that the decode-agent replaces its
# endpoints; the kernel's list of listening sockets.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"

# listens FIRST LAST: whether any program of this host listens there.
listens() {
    awk -v first="$1" -v last="$2" '$4 == "0A" {
        split($2, address, ":")
        port = 0
        for (i = 1; i <= 4; i++) port = port * 16 + index("0123456789ABCDEF", substr(address[2], i, 1)) - 1
        if (port >= first && port <= last) found = 1
    } END { exit !found }' /proc/net/tcp
}

# ports_of PID: where a process listens over TCP.
ports_of() {
    find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' >"$work/inodes"
    awk 'FILENAME != "/proc/net/tcp" { ours[$1] = 1; next }
        $4 == "0A" && $10 in ours {
            split($2, address, ":")
            port = 0
            for (i = 1; i <= 4; i++) port = port * 16 + index("0123456789ABCDEF", substr(address[2], i, 1)) - 1
            print port
        }' "$work/inodes" /proc/net/tcp
}

# in_range PID COUNT OTHER: it listens at COUNT ports of the range, and besides at most at OTHER.
in_range() {
    inside=0
    for port in $(ports_of "$1"); do
        if [ "$port" -ge $first ] && [ "$port" -le $last ]; then
            inside=$((inside + 1))
        else
            [ "$port" = "$3" ] || fail "process $1 listens at port $port, outside $first-$last"
        fi
    done
    [ "$inside" = "$2" ] || fail "process $1 listens at $inside ports of $first-$last, not at $2"
}

first=$((20000 + $$ % 8000))
while listens $first $((first + 11)); do first=$((first + 12)); done

# Two agents of two rails: four endpoints, and a successor each.
last=$((first + 7))
# shellcheck disable=SC2034 # read by start_prefill and start_decode
prefill_options="--rail-ports $first-$last --heartbeat 300ms --quiet 300ms"
# shellcheck disable=SC2034
decode_options=$prefill_options
start_all
control=${source_agent##*:}
in_range "$prefill_pid" 2 "$control"
in_range "$decode_pid" 2 none
replay --requests 20 || fail "a replay ended in $?"
expect verified 20

# Epochs of all rails, as the agents have reported them.
epochs() {
    ask_scheduler /api/v1/agents | tr ',' '\n' |
        sed -n 's/.*"epoch": *\([0-9]*\).*/\1/p' | awk '{ sum += $1 } END { print sum + 0 }'
}
[ "$(epochs)" = 4 ] || fail "the rails have $(epochs) epochs, not one each"
replay_in_background --requests 2000 --progress --concurrency 16 --pool-bytes 256M --speed 30 \
    --prefill-tokens-per-s 1000
await_progress
kill -9 "$prefill_pid"
finish_replay
[ "$replay_status" = 1 ] || fail "the replay ended in $replay_status"
expect bytes_wrong 0
tries=0
until [ "$(epochs)" -gt 4 ]; do
    tries=$((tries + 1))
    [ $tries -le $((300 * patience)) ] || fail "no endpoint was replaced"
    sleep 0.1
done
start_prefill
replay --requests 40 || fail "after the restart a replay ended in $?"
expect verified 40
expect bytes_wrong 0
in_range "$prefill_pid" 2 "$control"
in_range "$decode_pid" 2 none
kill "$prefill_pid" "$decode_pid"
wait "$prefill_pid" || fail "SIGTERM ended the prefill-agent with $?"
wait "$decode_pid" || fail "SIGTERM ended the decode-agent with $?"

# refused STATUS WORD AGENT_OPTION…
refused() {
    wanted=$1 word=$2
    shift 2
    status=0
    # shellcheck disable=SC2086 # a list of options
    timeout 20 "$bin/decode-agent" --name refused --engine-socket "$work/refused.sock" --insecure "$@" \
        ${rails:---rail 127.0.0.1 --rail 127.0.0.2} >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" = "$wanted" ] || fail "$*: exit $status, not $wanted: $(cat "$work/out")"
    grep -qF -- "$word" "$work/out" || fail "$*: '$word' is not in: $(cat "$work/out")"
}

refused 2 'as in 9500-9599' --rail-ports "$first"
refused 2 'as in 9500-9599' --rail-ports "$last-$first"
refused 2 'has 3 ports, but 2 rails need 4' --rail-ports "$first-$((first + 2))"
# Two agents of one rail have both ports of a range.
last=$((first + 1)) rails="--rail 127.0.0.1"
prefill_options="--rail-ports $first-$last" decode_options=$prefill_options
start_prefill
start_decode
in_range "$prefill_pid" 1 "$control"
in_range "$decode_pid" 1 none
refused 1 'has no free port: 2 taken by others' --rail-ports "$first-$last"
# Where no rail listens, the range has no meaning.
status=0
timeout 2 "$bin/decode-agent" --name beside --engine-socket "$work/beside.sock" --provider local --insecure \
    --rail-ports "$first-$first" >"$work/out" 2>&1 </dev/null || status=$?
[ "$status" = 0 ] || [ "$status" = 124 ] || fail "local with --rail-ports ended in $status: $(cat "$work/out")"
echo "e2e.rail_ports: passed"
