#!/bin/sh
# Runs tests of a build again and again, each as often as asked, some of them at the same time: that is
# the load. For tests that once failed by chance.
#
#   sh tests/support/repeat.sh RESULTS ROUNDS AT_ONCE BUILD TEST…
#
# RESULTS gets a line a run: test, round, verdict, seconds, commit. A run that RESULTS holds is left out, so
# that a stopped proof goes on where it was. The log of a run that failed lies beside RESULTS. The last line
# counts all of RESULTS; the exit status is 1 when a run failed.
set -eu

if [ $# -lt 5 ]; then
    sed -n '5s/^# *//p' "$0" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/../.." && pwd)

# one RESULTS BUILD COMMIT TEST ROUND
if [ "$1" = --one ]; then
    results=$2 build=$3 commit=$4 test=$5 round=$6
    grep -q "^$test $round " "$results" && exit 0
    log=$results.$test.$round.log
    began=$(date +%s)
    verdict=ok
    ctest --test-dir "$build" -R "^$test\$" --no-tests=error --output-on-failure >"$log" 2>&1 </dev/null ||
        verdict=FAILED
    ! grep -q 'Skipped' "$log" || verdict=skipped
    echo "$test $round $verdict $(($(date +%s) - began)) $commit" >>"$results"
    [ "$verdict" = FAILED ] || rm "$log"
    exit 0
fi

results=$(realpath "$1") rounds=$2 at_once=$3 build=$(realpath "$4")
shift 4
touch "$results"
commit=$(git -C "$root" rev-parse --short HEAD)
round=0
while [ "$round" -lt "$rounds" ]; do
    round=$((round + 1))
    for test in "$@"; do echo "$test $round"; done
done | xargs -P "$at_once" -L 1 sh "$0" --one "$results" "$build" "$commit"

counts=$(awk '{ n[$3]++ } END { print n["ok"] + 0, n["FAILED"] + 0, n["skipped"] + 0 }' "$results")
echo "$counts" | {
    read -r passed failed skipped
    echo "repeat: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
