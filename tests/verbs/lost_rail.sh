#!/bin/sh
# Goal: a rail that fails in mid replay costs no request: the other rail delivers its writes within
# fault_bound_ms (agents.sh). When the rail works again it carries writes again, in a new epoch.
# Argument: the fault. cut: the receiver's cable, without a sign to either end. unplug: the sender's cable,
# and the card sees that. down: the sender's interface is switched off, and on; soft-RoCE may let no process
# connect over it after that (rails.sh), and then the other rail carries on. Method: two rails on each side;
# the deadline of every request is the bound.
set -eu
fault=${1:?cut, unplug or down}
. "$KVRAIL_ROOT_DIR/tests/verbs/agents.sh"
case $fault in
cut) sources="1 2" failing=6 undo=rail_heal ;;
unplug) sources="1 2" failing=2 undo=rail_plug ;;
down) sources="3 4" failing=4 undo=rail_up ;;
esac
last=${sources#* }
requests=200 # some seconds: it must still move when the rail fails
agents_with "$sources" "5 6"
write_trace "$requests"
replay_trace 2 || fail "at first, a replay ended in $?" # connects
replay_trace 10 || fail "without a fault, a replay ended in $?"
expect_good 10
bound=$(fault_bound_ms)

rm -f "$work/replay.log"
replay_in_background --trace "$trace" --format azure --requests "$requests" --progress --deadline "${bound}ms"
await_progress
"rail_$fault" "$failing"
finish_replay
[ "$replay_status" = 0 ] || fail "with rail $failing $fault, the replay ended in $replay_status"
expect_good "$requests"
expect_most transfer_ms.max "$bound"
[ "$(figure retries)" -gt 0 ] || fail "nothing was on the rail when it failed"
echo "within: the longest transfer took $(figure transfer_ms.max) ms of at most $bound"

"$undo" "$failing"
if [ "$fault" = down ] && ! rail_connects "$failing" 5 >"$work/fresh.log" 2>&1; then
    rail_connects 3 5 >"$work/fresh.log" 2>&1 || fail "no process connects over a whole rail: $(cat "$work/fresh.log")"
    replay_trace 10 || fail "after the rail had gone, a replay ended in $?"
    expect_good 10
    echo "within: its card connects no other process either"
    exit 0
fi
await_rail "$last" epoch 1
# A slow scheduler's answer may be late, and then it is empty.
has_carried() { carried=$(of_rail "$failing" writes) && [ -n "$carried" ]; }
wait_for 15 has_carried || fail "the scheduler says nothing of the writes of rail $failing"
# Agents report once a second.
carries_again() {
    replay_trace 10 || fail "after the rail had come back, a replay ended in $?"
    expect_good 10
    wait_for 2 rail_exceeds "$failing" writes "$carried"
}
until_met 10 carries_again || fail "rail $failing carries no writes again"
