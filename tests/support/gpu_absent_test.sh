#!/bin/sh
# Goal: where there is no GPU, tests/gpu/run.sh says so in a sentence, with its summary line behind it, and
# is skipped (77); it builds nothing.
set -eu
code=0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
if nvidia-smi -L >/dev/null 2>&1 || ls /dev/nvidia0 >/dev/null 2>&1; then
    echo "gpu_absent: there is a GPU" >&2
    exit 77
fi
sh "$KVRAIL_ROOT_DIR/tests/gpu/run.sh" --part probes --build "$folder/build" --out "$folder/results" >"$folder/out" 2>&1 || code=$?
cat "$folder/out"
[ $code -eq 77 ] || { echo "gpu_absent: it ended in $code, not 77" >&2 && exit 1; }
[ "$(tail -n 1 "$folder/out")" = "gpu: 0 passed, 0 failed, 1 skipped" ] ||
    { echo "gpu_absent: the last line is no summary" >&2 && exit 1; }
grep -q 'this machine has no GPU: ' "$folder/out" || { echo "gpu_absent: it does not say why" >&2 && exit 1; }
[ ! -e "$folder/build" ] && [ ! -e "$folder/results" ] || { echo "gpu_absent: it built or wrote something" >&2 && exit 1; }
