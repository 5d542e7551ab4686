#!/bin/sh
# Goal: what tests/README.md names exists. Arguments: the build folder's list of tests (ctest -N).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:?build folder}
missing=0 count=0
ctest --test-dir "$build" -N >"${TMPDIR:-/tmp}/kvrail-tests.$$"
trap 'rm -f "${TMPDIR:-/tmp}/kvrail-tests.$$"' EXIT
# Of the rows of both tables: `kind.name` is a test, any other name in backquotes a case.
# shellcheck disable=SC2016 # backquotes of Markdown
for name in $(grep '^|.*`' "$root/tests/README.md" | grep -o '`[a-z0-9_.]*`' | tr -d '`' | sort -u); do
    case $name in
    unit | sim | fuzz | fabric | device | e2e | bench | ui | build | python | engines | wheel) continue ;;
    sim.mutants) [ -n "${KVRAIL_SANITIZE:-}" ] && continue ;; # not made there
    esac
    count=$((count + 1))
    case $name in
    *.*) grep -q ": $name\$" "${TMPDIR:-/tmp}/kvrail-tests.$$" && continue ;;
    *) grep -rqE "(cmocka_unit_test[a-z_]*|CASE)\(${name}[,)]" "$root/tests/unit" && continue ;;
    esac
    echo "tests/README.md names $name, which does not exist"
    missing=$((missing + 1))
done
echo "$count names, $missing of them of nothing"
[ $missing = 0 ] && [ $count -gt 40 ]
