#!/bin/sh
# Goal: a core dump of an agent or an engine has no page in it: neither engines' memory nor staging memory nor the
# agents' tables. Method: while a replay through staging memory runs, the kernel's flags of every mapping (dd: no
# core has it).
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need prefill-agent decode-agent kvrail

# Memory of engines, or shared between agents, that a core would have.
dumped() {
    awk '/^[0-9a-f]+-[0-9a-f]+ / { range = $1; name = $6 }
        /^Size:/ { size = $2 }
        /^VmFlags:/ && name ~ /memfd:kv/ && size >= 1024 && !/ dd/ { print range, name, size " KiB" }' \
        "/proc/$1/smaps"
}
kept_out() {
    awk '/^[0-9a-f]+-[0-9a-f]+ / { name = $6 } /^VmFlags:/ && / dd/ { print name }' "/proc/$1/smaps"
}

# clean NAME PID
clean() {
    [ -z "$(dumped "$2")" ] || fail "a core of $1 would have: $(dumped "$2")"
    kept_out "$2" | grep -q 'memfd:' || fail "$1 maps no memory of engines: the test sees nothing"
}

# shellcheck disable=SC2034 # read by start_prefill and start_decode
prefill_options="--device emulated --staging-memory 16M" decode_options="--device emulated --staging-memory 16M"
start_scheduler
start_prefill
start_decode
replay_in_background --requests 2000 --progress --concurrency 4 --pool-bytes 64M --speed 30 --device-memory both
await_progress
clean prefill-agent "$prefill_pid"
clean decode-agent "$decode_pid"
# The tables, with the tails of engines: 1 GiB of addresses without a file.
for pid in $prefill_pid $decode_pid; do
    awk '/^[0-9a-f]+-[0-9a-f]+ / { name = $6 } /^Size:/ { size = $2 }
        /^VmFlags:/ && name == "" && size >= 900000 && / dd/ { found = 1 } END { exit !found }' "/proc/$pid/smaps" ||
        fail "the tables of process $pid would be in its core"
done
engines=0
for pid in $(pgrep -P "$replay_pid") "$replay_pid"; do
    [ -n "$(kept_out "$pid" | grep 'memfd:' || true)" ] || continue
    engines=$((engines + 1))
    clean "an engine" "$pid"
done
[ $engines -gt 0 ] || fail "no process of the replay maps memory of engines"
kill "$replay_pid"
echo "e2e.undumped: passed"
