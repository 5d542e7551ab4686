#!/bin/sh
# Goal: a replay in virtual time says what the same replay through real agents takes. Two rails are capped far below
# the machine's speed; kvrail bench calibrate measures one of them; one trace is played through agents and, with the
# costs that were measured, in virtual time. p50 and p99 of transfers are compared at a light load and at one that the
# rails cannot carry. A campaign requires 15 %. The everyday run has the second load alone with fewer
# requests, shares its cores, asks for 60 % and may try three times.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
need kvrail prefill-agent decode-agent
rate=${KVRAIL_RATE_MBIT:-400}
bar=${KVRAIL_CAMPAIGN:+15}
bar=${bar:-60}
requests=${KVRAIL_CAMPAIGN:+300}
requests=${requests:-50}
concurrency=16
prefill_tokens_per_s=40000
heartbeat=1s
prefill_options='--provider tcp --quiet 1s' decode_options='--provider tcp --quiet 1s'

# trace COUNT PER_SECOND: most requests are of 2 to 8 MiB, a quarter of 10 to 22, and one of twenty of 64, in an order
# and at times that a generator of its own decides; no common prefix. Sizes are of all kinds, or a percentile would lie
# between two of them.
trace() {
    awk -v n="$1" -v rate="$2" 'function draw() { seed = (seed * 16807) % 2147483647; return seed / 2147483647 }
        BEGIN {
            seed = 7
            for (i = 0; i < n; i++) {
                kind = draw()
                tokens = kind < 0.05 ? 4096 : 16 * int(kind < 0.3 ? 40 + 48 * draw() : 8 + 24 * draw())
                printf "{\"timestamp\": %d, \"input_length\": %d, \"output_length\": 1, \"hash_ids\": [", at, tokens
                for (block = 0; 512 * block < tokens; block++)
                    printf "%s%d", block ? "," : "", 1000 * i + block
                print "]}"
                at -= 1000 / rate * log(draw())
            }
        }' >"$work/trace"
}

# Options of both kinds of replay.
same_options() {
    echo "--trace $work/trace --requests 0 --speed 1 --concurrency $concurrency --model llama-3.1-8b --layers 8" \
        "--kv-bytes-per-token 16k --page-tokens 16 --pool-bytes 1G --chunk-tokens 8192 --no-prefix-cache" \
        "--prefill-tokens-per-s $prefill_tokens_per_s"
}

# shellcheck disable=SC2046 # lists of options
play_real() {
    replay $(same_options) --verify sampled || fail "the replay ended in $?"
    expect bytes_wrong 0
    expect failed 0
}

# shellcheck disable=SC2046 # lists of options
play_virtual() {
    "$bin/kvrail" replay --virtual $(same_options) --hosts 1:1 --engines 1 --tp 1 --rails "${rail_count}x${rate}M" \
        --decode-batch 65536 --decode-step 1us --costs "$work/calibration/calibration-tcp.json" \
        --json "$work/virtual.json" >"$work/virtual.log" 2>&1 || fail "the virtual replay ended in $?"
}

# virtual_figure TIME KEY: of the times of the virtual run
virtual_figure() {
    sed -n "/^    \"$1\": {/,/}/p" "$work/virtual.json" | sed -n "s/^ *\"$2\": *\\([-0-9.e+]*\\),*\$/\\1/p" | head -n 1
}

calibrate() {
    ip netns exec "$source_space" "$bin/kvrail" bench calibrate --provider tcp --rail 10.78.1.1 --target-rail 10.78.1.2 \
        --target-netns "/run/netns/$target_space" --rounds 3 --state-dir "$work/calibration" >"$work/calibrate.log" 2>&1 ||
        fail "the calibration ended in $?"
    tail -n 1 "$work/calibrate.log"
}

# compare LOAD PERCENTILE: false where they are further apart than the bar.
compare() {
    real=$(figure "transfer_ms.$2") virtual=$(virtual_figure fetch "$2")
    off=$(awk -v real="$real" -v virtual="$virtual" 'BEGIN { printf "%.1f", 100 * (virtual / real - 1) }')
    printf '%-10s %s: real %8.1f ms, virtual %8.1f ms, %+.1f %%\n' "$1" "$2" "$real" "$virtual" "$off"
    awk -v off="$off" -v bar="$bar" 'BEGIN { exit !(off <= bar && off >= -bar) }'
}

# load NAME PER_SECOND COUNT
load() {
    trace "$3" "$2"
    play_real
    play_virtual
    good=yes
    compare "$1" p50 || good=no
    compare "$1" p99 || good=no
    [ -z "${KVRAIL_KEEP:-}" ] || for file in trace figures.json virtual.json; do
        cp "$work/$file" "$KVRAIL_KEEP/$1-$file"
    done
    [ $good = yes ]
}

attempt() {
    calibrate
    met=yes
    [ -z "${KVRAIL_CAMPAIGN:-}" ] || load light "${KVRAIL_LIGHT:-3}" "$requests" || met=no
    load saturating "${KVRAIL_HEAVY:-20}" $((2 * requests)) || met=no
    [ $met = yes ]
}

lay_cables 2
cap_cables "${rate}mbit" "${KVRAIL_BURST:-64kb}"
start_cabled_agents
until_met "${KVRAIL_CAMPAIGN:-3}" attempt || fail "real and virtual transfers differ by more than $bar %"
