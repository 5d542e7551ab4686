#!/bin/sh
# Goal: whoever talks nonsense to a port gets nothing but a closed connection, and nobody else
# notices. Argument: the port: engine, control, http or rail (a provider's own listening port).
# Method: a replay of small requests runs while malformed sessions hit the port
# (tests/support/garbage.c). No transfer fails and every byte is verified; afterwards the memory and
# the descriptors of the three programs are what they were, their logs are short, they answer, and
# they end with status 0. 100 sessions, 1,000 in a campaign; KVRAIL_SCALE is a percentage.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
port=${1:?port}
sessions=100
[ -z "${KVRAIL_CAMPAIGN:-}" ] || sessions=1000
sessions=$((sessions * ${KVRAIL_SCALE:-100} / 100))
garbage=$bin/../tests/garbage
[ -x "$garbage" ] || exit 77
prefill_options="--heartbeat 500ms"
decode_options="--heartbeat 500ms"
start_all

anonymous() { # KiB that are the process's alone
    awk '/^RssAnon/ { print $2 }' "/proc/$1/status"
}

descriptors() {
    find "/proc/$1/fd" -mindepth 1 | wc -l
}

# HOST:PORT of every TCP socket that a process listens on, one a line.
listening() {
    find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' >"$work/inodes"
    awk 'NR == FNR { own[$1] = 1; next } $4 == "0A" && $10 in own { print $2 }' \
        "$work/inodes" /proc/net/tcp | sort -u | while IFS=: read -r host number; do
        [ "$host" = 0100007F ] && echo "127.0.0.1:$(printf %d "0x$number")"
        [ "$host" = 0200007F ] && echo "127.0.0.2:$(printf %d "0x$number")"
        true
    done
}

# hit ADDRESS SEED
hit() {
    "$garbage" --kind "$port" --address "$1" --sessions "$sessions" --seed "$2" \
        >>"$work/garbage.log" 2>&1 || fail "the port $1 ($port) takes no more connections"
}

hit_all() {
    case $port in
    engine)
        hit "$work/source.sock" "$1"
        hit "$work/target.sock" "$(($1 + 1))"
        ;;
    control) hit "$source_agent" "$1" ;;
    http) hit "$scheduler" "$1" ;;
    rail)
        for address in $rail_ports; do
            hit "$address" "$1"
        done
        ;;
    esac
}

# small ARGUMENT…: requests of a few pages, paced so that the garbage meets them on their way.
small() {
    replay --requests "$@" --pool-bytes 8M --kv-bytes-per-token 512 --layers 4
}

rail_ports=
if [ "$port" = rail ]; then
    for pid in $prefill_pid $decode_pid; do
        for address in $(listening "$pid"); do
            [ "$address" = "$source_agent" ] || rail_ports="$rail_ports $address"
        done
    done
    [ -n "$rail_ports" ] || fail "the agents listen on no rail"
fi

# Warm: every buffer that grows once has grown.
small 40 || fail "the first replay"
hit_all 101
sleep 6 # what begins and says nothing is given up after 5 s
for name in prefill decode scheduler; do
    eval "pid=\$${name}_pid"
    anonymous "$pid" >"$work/$name.anonymous"
    descriptors "$pid" >"$work/$name.descriptors"
done

# Replays go on until the garbage is through.
hit_all 1 &
garbage_pid=$!
started_pids="$started_pids $garbage_pid"
rounds=0
while [ $rounds -lt 2 ] || kill -0 $garbage_pid 2>/dev/null; do
    rounds=$((rounds + 1))
    small 150 --seed $rounds || fail "the replay ended in $? beside garbage"
    expect verified 150
    expect failed 0
    expect bytes_wrong 0
done
wait $garbage_pid || fail "the garbage ended early"
cat "$work/garbage.log"
sleep 6

for name in prefill decode scheduler; do
    eval "pid=\$${name}_pid"
    kill -0 "$pid" || fail "$name is gone"
    before=$(cat "$work/$name.anonymous") after=$(anonymous "$pid")
    echo "$name: $before KiB before, $after KiB after," \
        "$(cat "$work/$name.descriptors") and $(descriptors "$pid") descriptors," \
        "$(wc -l <"$work/$name.log") lines of log"
    [ -n "${KVRAIL_SANITIZE:-}" ] || [ "$after" -le $((before + before / 10 + 4096)) ] ||
        fail "$name holds $after KiB after the garbage, $before KiB before"
    [ "$(descriptors "$pid")" -le $(($(cat "$work/$name.descriptors") + 2)) ] ||
        fail "$name has $(descriptors "$pid") descriptors, $(cat "$work/$name.descriptors") before"
    [ "$(wc -l <"$work/$name.log")" -le $((500 + rounds * 60)) ] ||
        fail "$name wrote $(wc -l <"$work/$name.log") lines"
done
[ "$port" != control ] || grep -q 'turned away .*: ' "$work/prefill.log" ||
    fail "nobody was told who was turned away, and why"

# All is as before: a replay, the API, and a clean end.
small 20 --seed 99 || fail "the last replay"
expect verified 20
curl -sf "http://$scheduler/healthz" >/dev/null || fail "the scheduler does not answer"
for pid in $prefill_pid $decode_pid $scheduler_pid; do
    kill -TERM "$pid"
done
for pid in $prefill_pid $decode_pid $scheduler_pid; do
    wait "$pid" || fail "a program ended with status $? on SIGTERM"
done
echo "e2e.garbage_$port: passed, $sessions sessions a port and $rounds replays beside them"
