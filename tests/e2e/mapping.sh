#!/bin/sh
# Goal: agents move a request between engines whose pages differ in size, order, gaps and heads, and
# between layouts of every known engine, byte for byte. Method: both engines of each pair of a table are
# one program (tests/support/mapping.c), which looks at all of the target's memory.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all
"$KVRAIL_BIN_DIR/../tests/mapping" "$work/source.sock" "$work/target.sock" "$source_agent" \
    >"$work/mapping.log" 2>&1 || fail "mapping ended in $?"
cat "$work/mapping.log"
