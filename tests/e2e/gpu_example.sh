#!/bin/sh
# Goal: the examples of a GPU engine work. Kernels of a CUDA graph compute pages and announce each layer
# themselves. A kernel of another process waits for a layer, on its stream or in its graph, and then finds
# every word in its own pages. Method: the examples as two processes, for each way to wait. Skipped where
# there is no GPU.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent kvrail ../examples/example_prefill_gpu \
    ../examples/example_decode_gpu
start_all
published_or_ended() {
    grep -q '^generation' "$work/source_$request.log" || not is_running "$started"
}

# runs REQUEST WORDS [graph]: the target says by what its layers are awaited.
runs() {
    request=$1 words=$2
    shift 2
    start "source_$request" "$bin/../examples/example_prefill_gpu" "$work/source.sock" "$request"
    wait_for 30 published_or_ended || fail "the source did not publish"
    if ! grep -q '^generation' "$work/source_$request.log"; then
        code=0
        wait "$started" || code=$?
        [ $code -ne 77 ] || { cat "$work/source_$request.log"; exit 77; }
        fail "the source ended in $code"
    fi
    generation=$(sed -n 's/^generation //p' "$work/source_$request.log")
    timeout $((60 * patience)) "$bin/../examples/example_decode_gpu" "$work/target.sock" "$request" \
        "$source_agent" "$generation" "$@" >"$work/target_$request.log" 2>&1 || fail "the target ended in $?"
    wait "$started" || fail "the source ended in $?"
    cat "$work/target_$request.log"
    grep -q "^layers are awaited by $words" "$work/target_$request.log" || fail "not awaited by $words"
    grep -q '^0 of 32768 words' "$work/target_$request.log" || fail "not every word was looked at"
}
runs by-stream '.'
runs by-graph 'a kernel of a graph' graph
