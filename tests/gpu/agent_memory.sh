#!/bin/sh
# Goal: how much of the GPU's memory the agents take. Method: the free memory before the agents start, with
# idle agents, while engines move pages (tests/support/gpu_pair.c), and when those have ended. One process
# asks each time, so its own context is in every number. Argument: the folder of the driver to use, "" for the
# system's.
set -eu
driver=${1-}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent ../tests/gpu_pair ../tests/gpu_imported
[ -z "$driver" ] || export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
free_mib() { "$bin/../tests/gpu_imported" free; }
kind=${KVRAIL_GPU_KINDS:-vmm}
before=$(free_mib) || { echo "$before"; exit 77; }
start_scheduler
start_prefill
start_decode
idle=$(free_mib)
start pair stdbuf -oL "$bin/../tests/gpu_pair" "$work/source.sock" "$work/target.sock" "$source_agent" \
    "$kind" "$kind" 1000000
says_done() { file_has "$work/pair.log" 'target done' || not is_running "$started"; }
wait_for 30 says_done || fail "no request ended"
is_running "$started" || fail "the engines ended too early"
busy=$(free_mib)
nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader 2>/dev/null || true
kill -9 "$started"
wait "$started" 2>/dev/null || true
returned() { after=$(free_mib) && [ "$after" -ge "$idle" ]; }
wait_for 10 returned || true
echo "MiB taken: $((before - idle)) by idle agents, $((before - busy)) with two engines at work in one process," \
    "$((before - after)) when these were killed"
