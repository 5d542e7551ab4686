#!/bin/sh
# Goal: how much of the GPU's memory the agents take, and that dead engines leave nothing behind. Method: the
# free memory before the agents start, with idle agents, while engines move pages (tests/support/gpu_pair.c),
# and after those were killed; then again with other engines, after which as much must be free. One process
# asks each time, so its own context is in every number. Argument: the folder of the driver to use, "" for the
# system's.
set -eu
driver=${1-}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent ../tests/gpu_pair ../tests/gpu_imported
[ -z "$driver" ] || export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
free_mib() { "$bin/../tests/gpu_imported" free; }
kind=${KVRAIL_GPU_KINDS:-vmm}

says_done() { file_has "$work/pair$round.log" 'target done' || not is_running "$started"; }
settled() { # two answers in a row are the same
    last=$after
    after=$(free_mib)
    [ "$after" = "$last" ]
}
# Engines move pages until they are killed. Sets $busy and $after.
engines_die() {
    round=$1
    start "pair$round" stdbuf -oL "$bin/../tests/gpu_pair" "$work/source.sock" "$work/target.sock" "$source_agent" \
        "$kind" "$kind" 1000000
    wait_for 30 says_done || fail "no request ended"
    is_running "$started" || fail "the engines ended too early"
    busy=$(free_mib)
    nvidia-smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader 2>/dev/null || true
    kill -9 "$started"
    wait "$started" 2>/dev/null || true
    after=none
    until_met 10 settled || fail "the free memory still changes: $last, then $after MiB"
}

before=$(free_mib) || { echo "$before"; exit 77; }
start_scheduler
start_prefill
start_decode
idle=$(free_mib)
engines_die 1
first=$after
engines_die 2
[ "$after" -ge $((first - 4)) ] || fail "$first MiB are free after the first engines, $after after the second"
echo "MiB taken: $((before - idle)) by idle agents, $((before - busy)) with two engines at work in one process," \
    "$((before - first)) when these were killed, $((before - after)) when the next ones were too"
