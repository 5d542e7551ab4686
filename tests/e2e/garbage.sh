#!/bin/sh
# Goal: a client that sends garbage to a port gets its connection closed, and no other client notices.
# Argument: the port: engine, control, http or rail (a provider's own listening port). agent_http: the agents' own
# HTTP ports. control_tls: over TLS, with a certificate of a decode-agent. source_tls: a prefill-agent with a good certificate that decode-agents dial.
# Method: a replay of small requests runs while malformed sessions hit the port (tests/support/garbage.c).
# No transfer fails and every byte is verified. Every port closes a silent connection within 30 s; then the
# memory and the descriptors of the three programs are as before. Their logs are short, they answer, and
# they end with status 0. 100 sessions, 1,000 in a campaign; KVRAIL_SCALE is a percentage.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
port=${1:?port}
sessions=100
[ -z "${KVRAIL_CAMPAIGN:-}" ] || sessions=1000
sessions=$((sessions * ${KVRAIL_SCALE:-100} / 100))
garbage=$bin/../tests/garbage
[ -x "$garbage" ] || exit 77
# A peer that is silent for three heartbeats is lost: a busy machine must not be taken for that.
prefill_options="--heartbeat 5s"
decode_options=$prefill_options
# Malformed messages reach their decoders as plain text alone.
kind=${port%_tls}
case $port in
control | http) secure=no ;;
*_tls) secure=yes ;;
agent_http)
    secure=no
    kind=http
    prefill_options="$prefill_options --http 0 --http-port-file $work/prefill.http"
    decode_options="$decode_options --http 0 --http-port-file $work/decode.http"
    ;;
esac
start_all
certificate=
case $port in
control_tls) role=decode ;;
source_tls) role=prefill ;;
*) role= ;;
esac
if [ -n "$role" ]; then
    credentials $role garbage >/dev/null
    certificate="--certificate $tls/garbage.pem --key $tls/garbage-key.pem"
fi

# KiB that are the process's alone. The scheduler's without its database, which may be cached whole.
anonymous() { # NAME PID
    held=$(awk '/^RssAnon/ { print $2 }' "/proc/$2/status")
    [ "$1" != scheduler ] || held=$((held - $(cat "$work"/scheduler/kvrail.db* | wc -c) / 1024))
    echo "$held"
}

descriptors() {
    find "/proc/$1/fd" -mindepth 1 | wc -l
}

# settle PID MOST: until the process has at most so many descriptors.
settle() {
    wait_for 30 holds_most "$@" || true
}

holds_most() { [ "$(descriptors "$1")" -le "$2" ]; }

# HOST:PORT of every TCP socket that a process listens on, one a line.
listening() {
    find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | tr -dc '0-9\n' \
        >"$work/inodes"
    awk 'NR == FNR { own[$1] = 1; next } $4 == "0A" && $10 in own { print $2 }' \
        "$work/inodes" /proc/net/tcp | sort -u | while IFS=: read -r host number; do
        [ "$host" = 0100007F ] && echo "127.0.0.1:$(printf %d "0x$number")"
        [ "$host" = 0200007F ] && echo "127.0.0.2:$(printf %d "0x$number")"
        true
    done
}

# hit ADDRESS SEED
hit() {
    # shellcheck disable=SC2086 # options
    "$garbage" --kind "$kind" --address "$1" --sessions "$sessions" --seed "$2" $certificate \
        >>"$work/garbage.log" 2>&1 || fail "the port $1 ($port) takes no more connections"
}

# The ports of the rails as they are now: an agent that has found an error on one opens another.
rail_ports() {
    for pid in $prefill_pid $decode_pid; do
        for address in $(listening "$pid"); do
            [ "$address" = "$source_agent" ] || echo "$address"
        done
    done
}

# hit_rails SEED: so many sessions at each rail, in ten turns.
hit_rails() {
    turn=0
    while [ $turn -lt 10 ]; do
        turn=$((turn + 1))
        for address in $(rail_ports); do
            "$garbage" --kind rail --address "$address" --sessions $((sessions / 10)) \
                --seed $(($1 * 100 + turn)) >>"$work/garbage.log" 2>&1 && continue
            if rail_ports | grep -qx "$address"; then fail "the rail $address takes no connection"; fi
            echo "$address was replaced" >>"$work/garbage.log"
        done
    done
}

# hit_targets SEED: fetches from a source that lies, each of which ends.
hit_targets() {
    rm -f "$work/liar.port"
    # shellcheck disable=SC2086 # options
    "$garbage" --kind source --address 127.0.0.1:0 --port-file "$work/liar.port" --sessions 100000 --seed "$1" \
        $certificate >>"$work/garbage.log" 2>&1 &
    liar_pid=$!
    wait_for 30 file_has "$work/liar.port" "" || fail "the liar does not listen"
    fetches=0
    while [ $fetches -lt $((sessions / 2)) ]; do
        is_running $liar_pid || fail "the liar ended"
        fetches=$((fetches + 1))
        status=0
        timeout $((30 * patience)) "$bin/../tests/lone" target "$work/target.sock" "lie-$1-$fetches" \
            "127.0.0.1:$(cat "$work/liar.port")" 1 >"$work/lone.log" 2>&1 || status=$?
        [ $status = 3 ] || fail "a fetch from a liar ended in $status: $(cat "$work/lone.log")"
    done
    kill $liar_pid 2>/dev/null || true
    echo "$fetches fetches from a source that lies" >>"$work/garbage.log"
}

hit_all() {
    case $port in
    engine)
        hit "$work/source.sock" "$1"
        hit "$work/target.sock" "$(($1 + 1))"
        ;;
    control | control_tls) hit "$source_agent" "$1" ;;
    source_tls) hit_targets "$1" ;;
    http) hit "$scheduler" "$1" ;;
    agent_http)
        hit "127.0.0.1:$(cat "$work/prefill.http")" "$1"
        hit "127.0.0.1:$(cat "$work/decode.http")" "$(($1 + 1))"
        ;;
    rail) hit_rails "$1" ;;
    esac
}

# small ARGUMENT…: requests of a few pages, paced so that the garbage meets them on their way.
small() {
    replay --requests "$@" --pool-bytes 8M --kv-bytes-per-token 512 --layers 4
}

[ "$port" != rail ] || [ -n "$(rail_ports)" ] || fail "the agents listen on no rail"

# Warm: every buffer that grows once has grown, and what was reported is in the database.
for seed in 11 12 13 14 15 16; do
    small 150 --seed $seed || fail "the first replay"
done
all_done() { ask_scheduler /api/v1/summary | grep -q '"done":900\b'; }
wait_for 30 all_done || fail "the scheduler does not know of all transfers"
for name in prefill decode scheduler; do
    eval "pid=\$${name}_pid"
    descriptors "$pid" >"$work/$name.descriptors"
done
hit_all 101
for name in prefill decode scheduler; do
    eval "pid=\$${name}_pid"
    settle "$pid" "$(cat "$work/$name.descriptors")"
    anonymous $name "$pid" >"$work/$name.anonymous"
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

for name in prefill decode scheduler; do
    eval "pid=\$${name}_pid"
    kill -0 "$pid" || fail "$name is gone"
    settle "$pid" $(($(cat "$work/$name.descriptors") + 2))
    before=$(cat "$work/$name.anonymous") after=$(anonymous $name "$pid")
    echo "$name: $before KiB before, $after KiB after," \
        "$(cat "$work/$name.descriptors") and $(descriptors "$pid") descriptors," \
        "$(wc -l <"$work/$name.log") lines of log"
    [ -n "${KVRAIL_SANITIZE:-}" ] || [ "$after" -le $((before + (before > 0 ? before / 10 : 0) + 4096)) ] ||
        fail "$name holds $after KiB after the garbage, $before KiB before"
    [ "$(descriptors "$pid")" -le $(($(cat "$work/$name.descriptors") + 2)) ] ||
        fail "$name has $(descriptors "$pid") descriptors, $(cat "$work/$name.descriptors") before"
    [ "$(wc -l <"$work/$name.log")" -le $((500 + rounds * 60)) ] ||
        fail "$name wrote $(wc -l <"$work/$name.log") lines"
done
[ "${port%_tls}" != control ] || grep -q 'turned away .*: ' "$work/prefill.log" ||
    fail "the log does not name a client that was turned away, and the reason"

# has_risen AGENT COUNTER: as the scheduler knows it.
has_risen() { [ "$(metrics | sed -n "s/^kvrail_$2_total{agent=\"$1\".*} //p")" -gt 0 ]; }
lies=$port
[ "$sessions" -ge 100 ] || lies=few # among few sessions there may be none of them
case $lies in
control_tls) victim=prefill ;; # changes of keys, and answers that are not read
source_tls) victim=decode ;;   # session tickets
*) victim= ;;
esac
for counter in ${victim:+tls_name tls_flood peers_lost}; do
    wait_for 20 has_risen $victim-0 $counter || fail "$counter does not count: $(metrics | grep "kvrail_$counter")"
done

# All is as before: a replay, the API, and a clean end.
small 20 --seed 99 || fail "the last replay"
expect verified 20
ask_scheduler /healthz -f >/dev/null || fail "the scheduler does not answer"
for pid in $prefill_pid $decode_pid $scheduler_pid; do
    kill -TERM "$pid"
done
for pid in $prefill_pid $decode_pid $scheduler_pid; do
    wait "$pid" || fail "a program ended with status $? on SIGTERM"
done
echo "e2e.garbage_$port: passed, $sessions sessions a port and $rounds replays beside them"
