#!/bin/sh
# Goal: engines' device memory reaches other engines' memory of any kind, byte for byte, with random page
# tables. Argument: the folder of the driver to use, "" for the system's. Method: tests/support/gpu_pair.c
# for each pair of kinds, all of them or those in KVRAIL_GPU_KINDS; KVRAIL_REQUESTS says how many tables. Over
# local the paths that they took are counted.
set -eu
driver=${1-}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent ../tests/gpu_pair
[ -z "$driver" ] || export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
start_scheduler
start_prefill
start_decode
# The engines may see other GPUs than the agents do, and be in a PID namespace of their own, as in a container.
visible=${KVRAIL_ENGINE_GPUS:+CUDA_VISIBLE_DEVICES=$KVRAIL_ENGINE_GPUS}
contained=${KVRAIL_ENGINE_CONTAINED:+unshare --fork --pid --mount-proc}
kinds=${KVRAIL_GPU_KINDS:-host ipc vmm segments} requests=${KVRAIL_REQUESTS:-10} pairs=0 staged=0
for source in $kinds; do
    for target in $kinds; do
        code=0
        # shellcheck disable=SC2086 # words or none
        timeout 300 env $visible $contained "$bin/../tests/gpu_pair" "$work/source.sock" "$work/target.sock" "$source_agent" \
            "$source" "$target" "$requests" >"$work/pair.log" 2>&1 || code=$?
        [ $code -ne 77 ] || exit 77
        [ $code -eq 0 ] || fail "from $source to $target memory: exit $code"
        tail -n 1 "$work/pair.log"
        pairs=$((pairs + 1))
        case $source-$target in
            host-host) ;;
            host-*) staged=$((staged + 1)) ;; # between devices the target moves the pages
        esac
    done
done
if [ "$provider" = local ]; then
    moved target local $(((pairs - staged) * requests))
    moved target staged $((staged * requests))
fi
echo "$((pairs * requests)) page tables, every byte right, between: $kinds"
