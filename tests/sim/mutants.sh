#!/bin/sh
# Builds with the planted bugs and must find each of them with at most 4,000 seeds; without a planted bug
# none of those seeds may fail. A bug that no seed finds is a hole in the simulator. The seed that finds a
# bug must find it again, alone, with the same history.
#
#   sh tests/sim/mutants.sh [CMAKE [BUILD_DIRECTORY [COMPILER]]]
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cmake=${1:-cmake}
build=${2:-$root/build/mutants}
compiler=${3:-cc}
seeds=${KVRAIL_MUTANT_SEEDS:-1:4000}

"$cmake" -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=OFF \
    -DKVRAIL_MUTANTS=ON -DKVRAIL_SHORT_SLOTS=ON "-DCMAKE_C_COMPILER=$compiler" >"$build.log" 2>&1 ||
    { cat "$build.log"; exit 1; }
"$cmake" --build "$build" --target kvrail >"$build.log" 2>&1 || { tail -n 60 "$build.log"; exit 1; }
kvrail=$build/bin/kvrail

missed=0
"$kvrail" sim --list-mutants >"$build.list"
[ -s "$build.list" ] || { echo "no bug is planted: nothing is tested"; exit 1; }
grep -q '^one_slot_for_all ' "$build.list" || { echo "short slots, and no mutant for them"; exit 1; }
for mutant in $(cut -d' ' -f1 "$build.list"); do
    status=0
    "$kvrail" sim --seeds "$seeds" --mutant "$mutant" >"$build.out" || status=$?
    seed=$(sed -n 's/^seed \([0-9]*\) failed: .*/\1/p' "$build.out" | tail -n 1)
    if [ "$status" -ne 1 ] || [ -z "$seed" ]; then
        echo "$mutant: NOT FOUND with seeds $seeds (exit status $status)"
        missed=$((missed + 1))
        continue
    fi
    if "$kvrail" sim --seeds "$seed:1" --mutant "$mutant" >"$build.again" ||
        ! cmp -s "$build.out" "$build.again"; then
        echo "$mutant: seed $seed does not replay"
        missed=$((missed + 1))
        continue
    fi
    echo "$mutant: $(grep "^seed $seed failed: " "$build.out")"
done
"$kvrail" sim --seeds 1:200
[ "$missed" -eq 0 ]
