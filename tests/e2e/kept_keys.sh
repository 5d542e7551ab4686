#!/bin/sh
# Goal: on rails of tcp the keys of a request open the target's pages while the request lives, and nothing
# after it; those of REGIONS open nothing at all. A peer that tries disturbs no other request. An honest source
# never meets a closed key, also where fetches end while its writes are on their way.
# Method: keeper (tests/support/keeper.c) relays an honest session and keeps each key. It writes with them
# while the request is held behind its first layer, which must succeed, and after its end.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
secure=no # the keeper reads what passes: it stands for a source agent that is believed
need ../tests/keeper ../tests/pair
provider=tcp
rails="--rail 127.0.0.1"

free_port() {
    awk 'BEGIN { srand(); print 20000 + int(rand() * 10000) }'
}

harm() {
    lines=$(grep -c "^GRANTs" "$work/keeper.log") || true
    echo >&5
    wait_for 90 harmed "$lines" || fail "the keeper says nothing"
    outcome=$(grep "^GRANTs" "$work/keeper.log" | tail -n 1)
}
harmed() { [ "$(grep -c "^GRANTs" "$work/keeper.log")" -gt "$1" ]; }

watch_keys
start_all
port=$(free_port)
mkfifo "$work/harm"
"$bin/../tests/keeper" "$port" "${source_agent##*:}" 5 <"$work/harm" >>"$work/keeper.log" 2>&1 &
started_pids="$started_pids $!"
exec 5>"$work/harm"
wait_for 30 file_has "$work/keeper.log" listening || fail "the keeper does not listen"
hold_pair "127.0.0.1:$port" keep

# While the request lives, the key of GRANT opens its pages: else the rest of this test shows nothing.
harm
[ "$outcome" = "GRANTs with keys 1, acknowledged with a key of REGIONS 0, of GRANT 1" ] ||
    fail "while the request lives: $outcome"
echo >&4
wait_for 30 file_has "$work/pair.log" ended || fail "the request did not end"
file_has "$work/pair.log" "target done" || fail "the transfer did not end well"

# Beside a replay: no rail is renewed, and nothing is posted a second time.
renewals() {
    metrics | awk '/^kvrail_epochs_ended_total{/ { sum += $2 } END { print sum + 0 }'
}
before=$(renewals)
replay_in_background --requests 300 --progress --concurrency 16 --prefill-tokens-per-s 20000
await_progress
for round in 1 2 3; do
    harm
    [ "$outcome" = "GRANTs with keys 1, acknowledged with a key of REGIONS 0, of GRANT 0" ] ||
        fail "after its end, round $round: $outcome"
done
exec 4>&-
status=0
wait "$pair" || status=$?
[ $status = 0 ] || fail "pair ended in $status"
file_has "$work/pair.log" "its bytes stayed" || fail "pair did not look at its bytes"

finish_replay
[ "$replay_status" = 0 ] || fail "the replay ended in $replay_status"
expect verified 300
expect bytes_wrong 0
expect retries 0
[ "$(dead_keys_met)" = 7 ] || fail "of 7 writes with keys that open nothing libfabric shows $(dead_keys_met)"
[ "$(renewals)" = "$before" ] || fail "rails were renewed: $before times before, now $(renewals)"

# The others go on.
"$bin/../tests/pair" "$work/source.sock" "$work/target.sock" "$source_agent" none >>"$work/pair.log" 2>&1 ||
    fail "the next request did not end well"
if ! is_running "$decode_pid" || ! is_running "$prefill_pid"; then fail "an agent ended"; fi

# A target engine is killed while many writes are on their way: its fetches end, and their keys close.
met=$(dead_keys_met)
for round in 1 2 3; do
    rm -f "$work/replay.log"
    replay_in_background --requests 20000 --progress --concurrency 16 --pool-bytes 256M --speed 30 \
        --prefill-tokens-per-s 20000 --no-prefix-cache
    await_progress
    kill -9 "$(sed -n "s/^target //p" "$work/pids")"
    finish_replay
    [ "$(figure failed)" -gt 0 ] || fail "round $round: nothing was on its way"
    [ "$(dead_keys_met)" = "$met" ] || fail "round $round: honest writes met closed keys"
done
echo "e2e.kept_keys: passed"
