#!/bin/sh
# Goal: how long an agent takes to register a large region on a GPU. Method: tests/support/gpu_region.c at a
# prefill-agent. Arguments: the size in GiB; the folder of the driver to use, "" for the system's.
set -eu
gib=$1 driver=${2-}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent ../tests/gpu_region
[ -z "$driver" ] || export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
start_scheduler
start_prefill
code=0
"$bin/../tests/gpu_region" "$work/source.sock" "$gib" || code=$?
[ $code -eq 0 ] || [ $code -eq 77 ] || fail "it ended in $code"
exit $code
