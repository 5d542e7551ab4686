#!/bin/sh
# Proves that `git bisect` works: builds every commit after BASE and runs the release stage's tests on it.
#
#   sh tests/support/each_commit.sh BASE RESULTS [ctest argument…]
#
# RESULTS gets one line a commit: hash, verdict, minutes, subject. A commit that RESULTS names with ok is
# left out, so that a stopped run goes on where it was. The exit status is 1 when a commit failed.
set -eu

if [ $# -lt 2 ]; then
    sed -n '4s/^# *//p' "$0" >&2
    exit 2
fi
base=$1
results=$(realpath "$2")
shift 2
root=$(git rev-parse --show-toplevel)
tree=$(mktemp -d)
trap 'git -C "$root" worktree remove --force "$tree" 2>/dev/null; rm -rf "$tree"' EXIT
git -C "$root" worktree add -q --detach "$tree" "$base"
touch "$results"
failed=0

# check COMMIT [ctest argument…]: in $tree
check() (
    commit=$1
    shift
    cd "$tree" &&
        git checkout -q --detach "$commit" &&
        rm -rf build/release/CMakeCache.txt build/release/CMakeFiles &&
        cmake --preset release -DBUILD_TESTING=ON &&
        cmake --build --preset release &&
        ctest --test-dir build/release -j "$(nproc)" --output-on-failure "$@"
)

for commit in $(git -C "$root" rev-list --reverse "$base..HEAD"); do
    short=$(git -C "$root" rev-parse --short "$commit")
    grep -q "^$short ok" "$results" && continue
    began=$(date +%s)
    verdict=ok
    check "$commit" "$@" >"$results.log" 2>&1 </dev/null || verdict=FAILED
    seconds=$(($(date +%s) - began))
    echo "$short $verdict $((seconds / 60)).$((seconds % 60 / 6)) min $(git -C "$root" log -1 --format=%s "$commit")" >>"$results"
    if [ "$verdict" = FAILED ]; then
        cp "$results.log" "$results.$short.log"
        failed=1
    fi
done
exit "$failed"
