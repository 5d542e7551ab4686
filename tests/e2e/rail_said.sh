#!/bin/sh
# Goal: an operator reads of a rail that is slow, and of rails that are cut: since when, how often and
# what to look at. Method: agents in two network namespaces; one of two rails gets 1 Mbit/s and is mended, then
# both are cut. The log, `kvrail status`, the metrics and `kvrail why` are read.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent
command -v curl >/dev/null || { echo "there is no curl" >&2; exit 77; }
heartbeat=1s
certificate_options="--host 10.78.9.1"
lay_cables 2
cap_cables 400mbit

# The scheduler lives with the source.
inside() { ip netns exec "$source_space" "$@"; }
# shellcheck disable=SC2046 # options
start scheduler ip netns exec "$source_space" "$bin/kvrail-scheduler" $(credentials scheduler scheduler) \
    --listen 10.78.9.1:0 --port-file "$work/scheduler.port" --state-dir "$work/scheduler"
await scheduler "$work/scheduler.port"
scheduler=10.78.9.1:$(cat "$work/scheduler.port")
curl() { inside curl "$@"; }
# shellcheck disable=SC2046 # variables
ask() { inside env $(tool_environment) "$bin/kvrail" "$@" --scheduler "$scheduler"; }
prefill_options="--scheduler $scheduler --state-dir $work/prefill"
decode_options="--scheduler $scheduler --state-dir $work/decode"
start_cabled_agents

# rail_gets RATE BURST: the second one, in either direction.
rail_gets() {
    for space in "$source_space" "$target_space"; do
        tc -n "$space" qdisc change dev rail2 root tbf rate "$1" burst "$2" latency 20ms || exit 77
    done
}
status_says() { ask status --all >"$work/status" 2>&1 && grep -qE -- "$1" "$work/status"; }
metrics_say() { metrics >"$work/metrics" && grep -qE -- "$1" "$work/metrics"; }
logged() { grep -qE -- "$1" "$work/prefill.log"; }
lines() { grep -cE -- "$1" "$work/prefill.log" || true; }

# ---- one is slow

replays_beside 2
wait_for 30 metrics_say '^kvrail_rail_pairs\{agent="prefill-0",state="warm"\} 2$' ||
    fail "the pairs do not get warm: $(cat "$work/metrics")"
# A busy machine may delay a write for so long that its rail is doubted for a moment.
no_trouble() { ! status_says 'in trouble'; }
wait_for 10 no_trouble || fail "a rail is in trouble before anything has happened: $(cat "$work/status")"
replay_in_background --requests "$(scaled 60)" --pool-bytes 256M --no-prefix-cache --kv-bytes-per-token 4k
await_bytes 2
rail_gets 1mbit 32kb
wait_for 30 logged 'rail 1 \(rail2\) (is slow to|does not reach) peer 0 \("decode-0"\): it' ||
    fail "the log does not say that the rail is slow"
said="1 of [0-9]+ rails of prefill-0 is in trouble: rail 1 \(rail2\) to decode-0: (slow|doubted|unreachable) for [0-9]+ s \([0-9]+ times?\)"
wait_for 15 status_says "$said" || fail "status does not say that the rail is slow: $(cat "$work/status")"
metrics_say '^kvrail_rail_pairs\{agent="prefill-0",state="(slow|doubted|unreachable)"\} 1$' ||
    fail "the metrics do not count the pair: $(grep rail_pairs "$work/metrics")"
wait_for 15 metrics_say '^kvrail_rail_pairs_(slow|silent)_total\{agent="prefill-0"\} [1-9]' ||
    fail "the metrics do not count the break: $(grep rail_pairs "$work/metrics")"
rail_gets 400mbit 256kb
finish_replay
[ "$replay_status" = 0 ] || fail "the replay ended in $replay_status"
wait_for 60 logged 'rail 1 \(rail2\) reaches peer 0 \("decode-0"\) again' || fail "the log does not say that it is back"
wait_for 15 metrics_say '^kvrail_rail_pairs\{agent="prefill-0",state="warm"\} 2$' ||
    fail "the metrics do not say that it is back: $(grep rail_pairs "$work/metrics")"
status_says 'in trouble' && fail "status does not say that it is back: $(cat "$work/status")"
finish_replays_beside
[ "$(lines ' (is slow to|does not reach) peer ')" -le 4 ] || fail "the log says it again and again: $(cat "$work/prefill.log")"

# ---- none is left

for cable in 1 2; do
    cut_cable $cable
done
replay --requests 1 --deadline $((20 * patience))s && fail "a replay ended well without a rail"
why_says() {
    id=$(ask_scheduler '/api/v1/transfers?state=failed&limit=1' | sed -n 's/.*"id":"\([0-9a-f]*\)".*/\1/p')
    [ -n "$id" ] || return 1
    ask why "$id" >"$work/why" 2>&1 || [ $? = 1 ] || return 1
    grep -qF -- "$1" "$work/why"
}
wait_for 15 why_says 'At its end: the network between prefill-0 and decode-0 is the cause: 2 of 2 pairs of rails are in trouble' ||
    fail "why does not name the network: $(cat "$work/why")"
grep -q 'What to do: check all that lies between those cards' "$work/why" || fail "$(cat "$work/why")"
! grep -q 'deadline (decode-agent)' "$work/why" || fail "why advises to wait longer: $(cat "$work/why")"
