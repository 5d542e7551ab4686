#!/bin/sh
# Goal: real programs move the KV of a request trace, and every byte is right. Argument: the provider.
# Method: a scheduler, two agents and a replay on loopback; a synthesised trace, then a small CSV, with
# other geometries, orders of pages and speeds.
set -eu
provider=${1:?provider}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all

# moved COUNT ARGUMENT…: all is right, and every byte that moved was looked at.
moved() {
    count=$1
    shift
    replay --requests "$count" "$@" || fail "$* ended in $?"
    expect transfers "$count"
    expect verified "$count"
    expect failed 0
    expect bytes_wrong 0
    expect pages_written_late 0
    expect layers_unannounced 0
    [ "$(figure bytes)" = "$(figure bytes_reported)" ] || fail "the agents counted other bytes"
    [ "$(figure bytes)" = "$(figure bytes_verified)" ] || fail "not every byte was verified"
}

# good COUNT ARGUMENT…: the same of one KV group.
good() {
    moved "$@"
    [ "$(figure bytes)" = $(($(figure tokens_moved) * $(figure kv_bytes_per_token))) ] ||
        fail "bytes are not tokens × bytes per token"
}

requests=${KVRAIL_CAMPAIGN:+500}
good "${requests:-60}" --scheduler "$scheduler"
[ "$(figure tokens_skipped)" -gt 0 ] || fail "no prefix was skipped"
grep -q "^  \"provider\": \"$provider\"," "$work/figures.json" || fail "it was not provider $provider"

printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n' >"$work/trace.csv"
for second in 10 11 12 13 14 15; do
    printf '2023-11-16 18:17:%s.0,%s,10\n' $second $((second * 300)) >>"$work/trace.csv"
done
good 6 --trace "$work/trace.csv" --format azure --speed 20
good 20 --model deepseek-v3 --layers 5 --kv-bytes-per-token 2560 --page-tokens 64 --seed 2
good 20 --pages shuffled --chunk-tokens 512 --concurrency 32 --seed 3
good 20 --page-tokens 1 --kv-bytes-per-token 1k --pool-bytes 16M --pages fresh --seed 4

# Hybrid models: groups with pages of their own sizes, of which a window keeps the last and a state one.
moved 6 --trace "$work/trace.csv" --format azure --model gpt-oss-120b --page-tokens 32 --pages shuffled
moved 20 --model hybrid --chunk-tokens 1000 --pages shuffled --seed 5
[ "$(figure tokens_skipped)" -gt 0 ] || fail "no prefix of a hybrid model was skipped"
for kind in full window state; do
    grep -q "\"kind\": \"$kind\"" "$work/figures.json" || fail "no group of kind $kind"
done
# What is wrong in a window, in a state and in the order of full pages is found.
for fault in "page --model gpt-oss-120b" "layer --model hybrid" "swap --model hybrid"; do
    [ "$provider" = tcp ] || break
    status=0
    # shellcheck disable=SC2086
    replay --requests 6 --corrupt $fault || status=$?
    [ "$status" = 1 ] || fail "--corrupt $fault ended in $status"
    in_log "^wrong: "
    : >"$work/replay.log"
done

good 3 --kv-bytes-per-token 0 --layers 0 --pool-bytes 128M --page-tokens 16

# An engine that closes its connection says so, and is not counted as lost.
engines_gone() { [ "$(ask_scheduler /api/v1/agents | grep -o '"engines":\[\]' | wc -l)" = 2 ]; }
wait_for 30 engines_gone || fail "the scheduler shows engines that closed their connection"
lost=$(ask_scheduler /metrics | awk '/^kvrail_engines_lost_total/ { sum += $2 } END { print sum + 0 }')
[ "$lost" = 0 ] || fail "$lost engines that closed their connection were counted as lost"
