#!/bin/sh
# Goal: what an engine on a GPU is shown to do works: kernels of a CUDA graph compute pages and say by
# themselves that a layer is final, and a kernel of another process finds every word in its own pages.
# Method: the examples of an engine, as two processes. Skipped where there is no GPU.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent kvrail ../examples/example_prefill_gpu \
    ../examples/example_decode_gpu
start_all
start source "$bin/../examples/example_prefill_gpu" "$work/source.sock" on-gpu
tries=0
until grep -q '^generation' "$work/source.log"; do
    tries=$((tries + 1))
    if ! kill -0 "$started" 2>/dev/null; then
        code=0
        wait "$started" || code=$?
        [ $code -ne 77 ] || { cat "$work/source.log"; exit 77; }
        fail "the source ended in $code"
    fi
    [ $tries -le $((300 * patience)) ] || fail "the source did not publish"
    sleep 0.1
done
generation=$(sed -n 's/^generation //p' "$work/source.log")
timeout $((60 * patience)) "$bin/../examples/example_decode_gpu" "$work/target.sock" on-gpu "$source_agent" \
    "$generation" >"$work/target.log" 2>&1 || fail "the target ended in $?"
wait "$started" || fail "the source ended in $?"
cat "$work/target.log"
grep -q '^0 of 32768 words' "$work/target.log" || fail "not every word was looked at"
