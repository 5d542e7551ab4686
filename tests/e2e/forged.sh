#!/bin/sh
# Goal: a stranger that can dial a tcp rail's port cannot make an engine believe that pages are there.
# Neither LAYER_IN nor DONE comes early. Nothing that is on its way is lost. The writes are counted.
# Method: forger (tests/support/forger.c) sends writes that need no key and name the first slots. First
# while a transfer waits for its second layer, then beside a replay that looks at every byte.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need ../tests/forger ../tests/pair
provider=tcp
rails="--rail 127.0.0.1"

# rail_port: where the decode-agent's rail listens. It listens at no other port.
rail_port() {
    find "/proc/$decode_pid/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n' >"$work/inodes"
    awk 'FILENAME != "/proc/net/tcp" { ours[$1] = 1; next }
        $4 == "0A" && $10 in ours {
            split($2, address, ":")
            port = 0
            for (i = 1; i <= 4; i++) port = port * 16 + index("0123456789ABCDEF", substr(address[2], i, 1)) - 1
            print port
        }' "$work/inodes" /proc/net/tcp
}

forge() {
    status=0
    "$bin/../tests/forger" 127.0.0.1 "$(rail_port)" "$@" >>"$work/forger.log" 2>&1 || status=$?
    [ $status != 77 ] || exit 77
    [ $status = 0 ] || fail "the forger ended in $status"
}

start_all
[ "$(rail_port | wc -l)" = 1 ] || fail "the decode-agent listens at: $(rail_port)"

# A transfer is held behind its first layer. All of its other chunks are forged.
hold_pair "$source_agent" wait
forge 30 64
exec 4>&-
status=0
wait "$pair" || status=$?
[ $status = 0 ] || fail "pair ended in $status"
file_has "$work/pair.log" "target done" || fail "the transfer did not end well"

# counted METRIC: the sum of the decode-agent's rails.
counted() {
    metrics | awk -v name="kvrail_rail_$1_total" 'index($1, name "{") == 1 { sum += $2 } END { print sum + 0 }'
}
are_counted() {
    [ "$(($(counted wrong_tag_writes) + $(counted idle_slot_writes)))" -ge "$1" ]
}
wait_for 30 are_counted 100 || fail "of 3,840 forged writes the metrics show $(counted wrong_tag_writes) \
with a wrong tag and $(counted idle_slot_writes) for idle slots"
file_has "$work/decode.log" "that no transfer expects" || fail "the decode-agent does not warn"

# Beside a replay, wherever its rail listens by then. It lasts for seconds: progress shows once a second. A
# forger would wait for half a minute where its port is renewed meanwhile. Each strike renews the rail, so a slow
# build would never end without a bound. Its one rail must not be away for longer than fetches wait: it is struck again
# when a request has ended since.
strikes=20
replay_in_background --requests 300 --progress --concurrency 16 --prefill-tokens-per-s 20000
await_progress
while [ $strikes -gt 0 ] && is_running "$replay_pid"; do
    strikes=$((strikes - 1))
    port=$(rail_port)
    [ -z "$port" ] || timeout 5 "$bin/../tests/forger" 127.0.0.1 "${port%%[!0-9]*}" 64 64 >>"$work/forger.log" 2>&1 || true
    [ $patience = 1 ] || wait_for 10 has_progressed "$(progress)" || break
done
finish_replay
[ "$replay_status" = 0 ] || fail "the replay ended in $replay_status"
expect verified 300
expect failed 0
expect bytes_wrong 0
expect layers_unannounced 0
echo "e2e.forged: passed"
