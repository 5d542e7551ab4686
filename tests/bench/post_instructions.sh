#!/bin/sh
# Goal: posting a write costs as few instructions as is promised, from readiness to completion. Method:
# the benchmark of posting under callgrind with N and 2N writes; what it takes to start falls out of
# the difference. A count of instructions does not depend on who else uses the machine.
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
# Each lesson can be switched off, and all writes are posted all the same.
for switch in "--batch 1" --no-lazy --no-choice; do
    # shellcheck disable=SC2086 # a list of options
    "$KVRAIL_BIN_DIR/kvrail" bench post --writes 4096 $switch --json "$work/switch.json" >/dev/null
    grep -q '"writes": 4096,' "$work/switch.json" || {
        echo "post_instructions: $switch posted another number of writes" >&2
        exit 1
    }
done
each=$(((twice - once) / writes))
[ "$each" -gt 0 ] && [ "$each" -le "$most" ] || {
    echo "post_instructions: $each instructions a write, and $most are promised" >&2
    exit 1
}
echo "bench.post_instructions: passed, $each instructions a write"
