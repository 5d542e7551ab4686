#!/bin/sh
# Goal: --list-mutants lists the planted bugs that its build can find. Method: this build has none and
# reports that; the list of a build with planted bugs comes from base/mutant.c alone, compiled with and
# without short slots. Argument: the compiler.
set -eu

cc=${1:-cc}
work=$(mktemp -d "${TMPDIR:-/tmp}/list-mutants.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "list_mutants: $1" >&2
    exit 1
}

# Skipped in a build with planted bugs.
status=0
"$KVRAIL_BIN_DIR/kvrail" sim --list-mutants >"$work/list" 2>"$work/errors" || status=$?
if [ ! -s "$work/list" ]; then
    [ "$status" = 1 ] || fail "without planted bugs it ended in $status"
    grep -q KVRAIL_MUTANTS "$work/errors" || fail "the error does not name the build option KVRAIL_MUTANTS"
    status=0
    "$KVRAIL_BIN_DIR/kvrail" sim --mutant lease_never_ends 2>"$work/errors" || status=$?
    [ "$status" = 2 ] || fail "a mutant that this build lacks ended in $status"
fi

cat >"$work/main.c" <<'C'
#include "base/mutant.h"

int main(void)
{
    return kvr_mutants_list(stdout) > 0 ? 0 : 1;
}
C
for slots in long short; do
    options=
    [ "$slots" = long ] || options=-DKVRAIL_SHORT_SLOTS=1
    # shellcheck disable=SC2086 # none or one
    "$cc" -DKVRAIL_MUTANTS=1 $options -I"$KVRAIL_ROOT_DIR/common" -o "$work/$slots" \
        "$work/main.c" "$KVRAIL_ROOT_DIR/common/base/mutant.c"
    "$work/$slots" >"$work/$slots.list" || fail "the list is empty with $slots slots"
    grep -q '^lease_never_ends ' "$work/$slots.list" || fail "lease_never_ends is missing with $slots slots"
done
grep -q '^one_slot_for_all ' "$work/short.list" || fail "one_slot_for_all is missing with short slots"
! grep -q '^one_slot_for_all ' "$work/long.list" || fail "long slots cannot show one_slot_for_all"
