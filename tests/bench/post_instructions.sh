#!/bin/sh
# Goal: a write costs at most the promised number of instructions, from readiness to completion. Method:
# the benchmark of posting under callgrind with N and 2N writes; the difference leaves out the start. A
# count of instructions does not depend on the machine's other load.
set -eu
most=${1:-250}
command -v valgrind >/dev/null || {
    echo "SKIP: no valgrind" >&2
    exit 77
}
work=$(mktemp -d "${TMPDIR:-/tmp}/post-instructions.XXXXXX")
trap 'rm -rf "$work"' EXIT
writes=16384

instructions() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" "$KVRAIL_BIN_DIR/kvrail" bench post \
        --provider null --writes "$1" --json "$work/$1.json" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        exit 1
    }
    sed -n 's/^.*Collected : //p' "$work/log"
}

once=$(instructions $writes)
twice=$(instructions $((2 * writes)))
grep -q '"writes_per_s"' "$work/$writes.json" || {
    echo "post_instructions: no writes_per_s in the JSON" >&2
    exit 1
}
# Without shared doorbells the same writes are posted.
"$KVRAIL_BIN_DIR/kvrail" bench post --writes 4096 --batch 1 --json "$work/alone.json" >/dev/null
grep -q '"writes": 4096,' "$work/alone.json" || {
    echo "post_instructions: --batch 1 posted another number of writes" >&2
    exit 1
}
each=$(((twice - once) / writes))
[ "$each" -gt 0 ] && [ "$each" -le "$most" ] || {
    echo "post_instructions: $each instructions a write, and $most are promised" >&2
    exit 1
}
echo "bench.post_instructions: passed, $each instructions a write"
