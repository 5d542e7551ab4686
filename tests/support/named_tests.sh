#!/bin/sh
# Goal: the tests that tests/README.md and the tables of attacks in security.md name exist. Arguments: the build
# folder's list of tests (ctest -N).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:?build folder}
tests=$(mktemp "${TMPDIR:-/tmp}/kvrail-tests.XXXXXX")
trap 'rm -f "$tests"' EXIT
ctest --test-dir "$build" -N >"$tests"
missing=0

# exists NAME: `kind.name` is a test, any other name a case of a unit test, a shape of garbage, or a mutant.
exists() {
    case $1 in
    *.*) grep -q ": $1\$" "$tests" ;;
    *) grep -rqE "[A-Za-z_]+\($1[,)]" "$root/tests/unit" ||
        grep -qF "{\"$1\", shape_" "$root"/tests/support/garbage_*.c ||
        grep -q " X($1," "$root/common/base/mutant.h" ;;
    esac
}

# check PAGE LEAST: names from standard input, at least so many.
check() {
    count=0
    for name in $(grep -o '`[a-z0-9_.]*`' | tr -d '`' | sort -u); do
        case $name in
        unit | sim | fuzz | fabric | device | e2e | bench | ui | build | python | engines | wheel) continue ;;
        sim.mutants) [ -n "${KVRAIL_SANITIZE:-}" ] && continue ;; # not made there
        esac
        count=$((count + 1))
        exists "$name" && continue
        echo "$1 names $name, which does not exist"
        missing=$((missing + 1))
    done
    echo "$1: $count names"
    [ $count -gt "$2" ] || missing=$((missing + 1))
}

grep '^|.*`' "$root/tests/README.md" >"$tests.rows"
check tests/README.md 40 <"$tests.rows"
# Of the tables of attacks the last column, which no row may leave empty.
sed -n '/^## Attacks and their tests/,/^## What is not/p' "$root/common/docs/security.md" |
    sed -n '/^|[- |]*|$/d; s/^|.*|\([^|]*\)|$/\1/p' | grep -v '^ test $' >"$tests.rows"
check security.md 15 <"$tests.rows"
while read -r tested; do
    case $tested in
    *\`*.*\`* | "the same"*) ;;
    *) echo "security.md: an attack without a test: '$tested'" && missing=$((missing + 1)) ;;
    esac
done <"$tests.rows"
rm -f "$tests.rows"
echo "$missing missing"
[ $missing = 0 ]
