#!/bin/sh
# Goal: idle programs cost less than 1 % of a core. Method: after a replay, with both agents connected and no
# engine, the CPU time of the agents and the scheduler is taken from the kernel over 5 s, 30 s in a campaign.
# The memory of the agents after a second replay is compared with the memory after the first.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
provider=$1
seconds=5
[ -z "${KVRAIL_CAMPAIGN:-}" ] || seconds=30

ticks() { # of all three, in hundredths of a second
    for pid in $pids; do
        cut -d ' ' -f 14,15 "/proc/$pid/stat" | tr ' ' '\n'
    done | awk '{ sum += $1 } END { print sum }'
}

anonymous() { # KiB of both agents that are theirs alone
    awk '/^RssAnon/ { sum += $2 } END { print sum }' "/proc/$prefill_pid/status" \
        "/proc/$decode_pid/status"
}

start_all
pids="$scheduler_pid $prefill_pid $decode_pid"
replay --requests 20 || fail "the first replay"
warm=$(anonymous)
replay --requests 60 --seed 2 || fail "the second replay"
used=$(anonymous)
[ "$used" -le $((warm + warm / 10 + 1024)) ] ||
    fail "the agents hold $used KiB after 80 requests and $warm KiB after 20"
spent=$seconds times=0
while [ "$spent" -ge $seconds ] && [ $times -lt 3 ]; do # at first something may be left to do
    times=$((times + 1))
    sleep 1
    before=$(ticks)
    sleep $seconds
    spent=$(($(ticks) - before))
done
echo "idle over $provider: $spent hundredths of a second in $seconds s; agents hold $warm, then $used KiB"
[ "$spent" -lt $seconds ] || [ -n "${KVRAIL_SANITIZE:-}" ] || fail "$spent hundredths of a second in $seconds s"
echo "e2e.idle: passed"
