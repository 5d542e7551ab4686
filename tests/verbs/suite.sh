#!/bin/sh
# The suite, inside the VM: what every provider must pass, agents on several rails, and faults. The
# last line counts; a name as an argument runs the cases that begin with it. Without a name and without
# KVRAIL_CAMPAIGN the cases that resemble another are left out.
set -u
here=$(cd "$(dirname "$0")" && pwd)
only=${1:-}
patience=${KVRAIL_PATIENCE:-1}
passed=0
failed=0
skipped=0

. "$here/rails.sh"

seconds() {
    cut -d. -f1 /proc/uptime
}

# The argument is how the case's name begins.
wanted() {
    [ "${1#"$only"}" != "$1" ] || [ -z "$only" ]
}

# run_case NAME SCRIPT [ARGUMENT…]
run_case() {
    name=$1
    script=$here/$2
    shift 2
    wanted "$name" || return 0
    began=$(seconds)
    status=0
    timeout $((60 * patience)) sh "$script" "$@" >"$TMPDIR/case.log" 2>&1 || status=$?
    rails_whole
    took=$(($(seconds) - began))
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok       $name ($took s)$(sed -n 's/^within: /, /p' "$TMPDIR/case.log" | tr -d '\n')"
    elif [ "$status" -eq 77 ]; then
        skipped=$((skipped + 1))
        echo "skipped  $name: $(tail -n 1 "$TMPDIR/case.log")"
    else
        failed=$((failed + 1))
        echo "FAILED   $name ($took s), exit status $status"
        sed 's/^/    /' "$TMPDIR/case.log"
    fi
}

# As run_case, for a case that resembles another.
also() {
    [ -z "$only${KVRAIL_CAMPAIGN:-}" ] || run_case "$@"
}

# The cases of the conformance list are counted one by one.
conformance() {
    wanted conformance || return 0
    began=$(seconds)
    KVRAIL_PARTY_RAILS="10.77.0.1,10.77.0.2 10.77.0.5,10.77.0.6" timeout $((100 * patience)) \
        "$KVRAIL_BUILD_DIR/tests/fabric.conformance_tcp" verbs >"$TMPDIR/case.log" 2>&1
    status=$?
    # Each group of cases ends with a summary that names some a second time.
    sed '/test(s) run/,/Running/d' "$TMPDIR/case.log" >"$TMPDIR/case.ended"
    fine=$(grep -c '^\[       OK \] [a-z]' "$TMPDIR/case.ended")
    left=$(grep -c '^\[  SKIPPED \] [a-z]' "$TMPDIR/case.ended")
    bad=$(grep -c '^\[  FAILED  \] [a-z]' "$TMPDIR/case.ended")
    # It ended in the middle, or before the first case.
    [ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
    passed=$((passed + fine))
    skipped=$((skipped + left))
    failed=$((failed + bad))
    echo "$fine passed, $bad failed of the conformance list ($(($(seconds) - began)) s)"
    [ "$bad" -eq 0 ] || sed 's/^/    /' "$TMPDIR/case.log"
}

conformance
run_case replay_4_to_4 replay.sh "1 2 3 4" "5 6 7 8"
also replay_4_to_2 replay.sh "1 2 3 4" "5 6"
run_case replay_1_to_3 replay.sh "1" "5 6 7"
also receiver_killed_idle killed.sh idle
run_case receiver_killed_busy killed.sh busy
run_case receiver_cut_and_healed lost_rail.sh cut
also sender_unplugged lost_rail.sh unplug
run_case connections connections.sh
run_case memlock memlock.sh
run_case two_nodes numa.sh
also sender_down lost_rail.sh down # last: it spoils a rail
echo "verbs: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
