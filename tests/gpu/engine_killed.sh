#!/bin/sh
# Goal: an engine is killed while both agents have its device memory open and move its pages. Both agents go
# on, and the next engines' bytes are right. Method: tests/support/gpu_pair.c, killed in the middle, and again
# to its end; for each kind of memory in KVRAIL_GPU_KINDS. Argument: the folder of the driver to use, "" for the
# system's.
set -eu
driver=${1-}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent ../tests/gpu_pair
[ -z "$driver" ] || export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
start_scheduler
start_prefill
start_decode
engines() { # engines KIND REQUESTS
    # Without a buffer their lines come as they are printed.
    exec stdbuf -oL "$bin/../tests/gpu_pair" "$work/source.sock" "$work/target.sock" "$source_agent" "$1" "$1" "$2"
}
has_agents() { is_running "$prefill_pid" && is_running "$decode_pid"; }
says_done() { file_has "$work/pair_$kind.log" 'target done' || not is_running "$started"; }
for kind in ${KVRAIL_GPU_KINDS:-ipc vmm}; do
    start "pair_$kind" engines "$kind" 1000000
    wait_for 30 says_done || fail "no request ended with memory of kind $kind"
    if ! is_running "$started"; then
        code=0
        wait "$started" || code=$?
        [ $code -ne 77 ] || exit 77
        fail "the engines with memory of kind $kind ended in $code"
    fi
    kill -9 "$started"
    wait "$started" 2>/dev/null || true
    has_agents || fail "an agent died with engines of kind $kind"
    (engines "$kind" 3) >"$work/next.log" 2>&1 || fail "the next engines of kind $kind ended in $?"
    has_agents || fail "an agent died after engines of kind $kind"
    tail -n 1 "$work/next.log"
done
echo "killed in the middle, with memory of: ${KVRAIL_GPU_KINDS:-ipc vmm}; the next engines' bytes are right"
