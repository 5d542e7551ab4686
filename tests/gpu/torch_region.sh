#!/bin/sh
# Goal: memory that PyTorch allocates moves between engines, byte for byte, with its usual allocator and with
# expandable segments. Method: tests/gpu/torch_region.py with two agents. Skipped where Python, PyTorch or its
# CUDA are missing. Argument: a python3.
set -eu
python=${1:-python3}
command -v "$python" >/dev/null || { echo "no $python here" && exit 77; }
"$python" -c 'import torch' 2>/dev/null || { echo 'no PyTorch here' && exit 77; }
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all
export PYTHONPATH="$KVRAIL_ROOT_DIR/common/python" PYTHONDONTWRITEBYTECODE=1 SOURCE_SOCKET="$work/source.sock" \
    TARGET_SOCKET="$work/target.sock"
for library in "$bin/../lib/libkvrail.so.1" "${KVRAIL_LIBRARY:-}"; do
    [ ! -e "$library" ] || export KVRAIL_LIBRARY="$library"
done
said=
for segments in False True; do
    code=0
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:$segments timeout 50 "$python" \
        "$KVRAIL_ROOT_DIR/tests/gpu/torch_region.py" >"$work/torch.log" 2>&1 || code=$?
    [ $code -ne 77 ] || { tail -n 1 "$work/torch.log" && exit 77; }
    [ $code -eq 0 ] || fail "with expandable_segments:$segments it ended in $code"
    said="$said; expandable_segments:$segments: $(tail -n 1 "$work/torch.log")"
done
echo "${said#; }"
