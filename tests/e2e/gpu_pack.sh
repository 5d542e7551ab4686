#!/bin/sh
# Goal: a pack of tests/gpu runs on a bare machine: each part by itself, with its results in few files, over
# several commands; a probe that fails leaves the others running. Argument: the build. Method: the pack in another
# folder, with a PATH of a bare host's commands, over the driver of host memory.
set -eu
build=${1:?build}
for command in python3 patchelf strip ldd gzip; do
    command -v $command >/dev/null || { echo "there is no $command" >&2; exit 77; }
done
archive=$(sed -n 's/^KVRAIL_LIBFABRIC_FILE:[A-Z]*=\(.*\)\.so[0-9.]*$/\1.a/p' "$build/CMakeCache.txt")
[ -e "$archive" ] || { echo "this libfabric has no static library" >&2; exit 77; }
driver=$build/tests/fake_cuda
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*" >&2
    tail -n 40 "$work"/*.log >&2 || true
    exit 1
}

python3 -B "$KVRAIL_ROOT_DIR/tests/gpu/pack.py" "$build" "$work/made" >"$work/pack.log" 2>&1 ||
    fail "no pack was made"
tail -n 1 "$work/pack.log"
mv "$work/made" "$work/bare"
find "$work/bare/kvrail/bin" "$work/bare/kvrail/tests" "$work/bare/kvrail/examples" -type f -exec ldd {} + \
    2>/dev/null | grep '=>' | grep -vF "=> $work/bare/" |
    grep -vE '^[[:space:]]*lib(c|m|dl|rt|pthread|resolv)\.so' >"$work/foreign.log" || true
[ ! -s "$work/foreign.log" ] || fail "the pack lacks libraries"

mkdir "$work/commands"
for command in awk bash basename cat chmod cp cut date dirname env grep gzip head kill ls mkdir mktemp mv nproc rm \
    sed sh sleep sort stdbuf tail tar timeout touch tr wc; do
    ln -s "$(command -v $command)" "$work/commands/" 2>/dev/null || true # some are built in
done
# run NAME ARGUMENT…: the entry of the pack, as on the bare machine; its output is NAME.log.
run() {
    name=$1
    shift
    (cd "$work" && env -i "PATH=$work/commands" TMPDIR="$work" KVRAIL_GPU_REQUESTS=1 ${refused-} \
        sh bare/run.sh "$@") >"$work/$name.log" 2>&1
}
for part in $(sh "$work/bare/run.sh" --list | cut -d ' ' -f 1); do
    began=$(date +%s)
    run "$part" --part "$part" --out "$work/results" --driver "$driver" || fail "part $part ended in $?"
    grep -q '^gpu: [1-9][0-9]* passed, 0 failed, ' "$work/$part.log" || fail "part $part checked nothing"
    echo "$part: $(($(date +%s) - began)) s, $(tail -n 1 "$work/$part.log")"
done

# Another machine, that refuses some calls: nothing fails, and it says why.
refused='FAKE_CUDA_NO_IPC=1 FAKE_CUDA_NO_DMABUF=1' run refused --part probes --out "$work/other" \
    --driver "$driver" || fail "with refused calls it ended in $?"
grep -q '^dmabuf_vmm: skipped (.*refuses a dmabuf of it' "$work/refused.log" || fail "there is no reason"
grep -q '^killed_vmm: passed' "$work/refused.log" || fail "what is possible was not asked"

# A probe that breaks fails alone.
printf '#!/bin/sh\nexit 3\n' >"$work/bare/kvrail/tests/gpu_imported"
code=0
run broken --part probes --out "$work/other" --driver "$driver" || code=$?
[ $code = 1 ] || fail "with a broken probe it ended in $code"
grep -q '^dmabuf_ipc: failed (exit 3' "$work/broken.log" || fail "the broken probe is not named"
grep -q '^engine_killed: passed' "$work/broken.log" || fail "the others did not run"

files=$(find "$work/results" -type f | wc -l)
[ "$files" -le 8 ] || fail "$files files of results"
run report --report "$work/results" "$work/other" || fail "no report"
for row in '| probes |' '| correct |' '| pairs |' '| figures |' '| dmabuf_vmm | ' '| push_tcp.gb_s | ' \
    '| gpu.gather.ratio | ' '| beside.gather_driver.model_slower | ' '| region.add_ms | ' \
    '| beside.mps | 0 | ' '| torch | skipped (of 3 runs) | ' '| dmabuf_ipc | failed (of 3 runs, 1 failed) |'; do
    grep -qF -- "$row" "$work/report.log" || fail "the report lacks $row"
done
