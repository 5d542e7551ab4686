#!/bin/sh
# Goal: one of four rails is cut in mid transfer, silently, and mended: every byte arrives, nothing
# fails, and the rail is used again. Method: agents in two network namespaces joined by veth pairs,
# each capped so that transfers are under way whenever a cable is cut; a replay that checks every byte.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
need kvrail prefill-agent decode-agent
heartbeat=1s # the agents must not lose each other where they wait for a core
lay_cables 4
cap_cables 400mbit
start_cabled_agents

# The source says which pair of rails is in trouble, and why.
said=no
trouble_said() {
    "$bin/kvrail" topo --agent "$work/source.sock" >"$work/pairs" 2>&1 || return 1
    grep -qE '^  rail 1 .* (does not reach|is in doubt with|is slow to) 1 of decode-0.*: (its writes (were silent|fail)|it delivers less).*; [0-9]+ times? in this session' "$work/pairs"
}

# False where the cuts met no transfer. A cut lasts for two heartbeat bounds: in the first of them writes are
# posted to the rail, and by the end of the second they are missed.
cut_twice() {
    replay_in_background --requests "$(scaled 100)" --pool-bytes 256M --no-prefix-cache \
        --kv-bytes-per-token 4k
    await_bytes 2
    cut_cable 2
    await_bytes 1
    await_bytes 3
    sleep "$(scaled 6)"
    if trouble_said; then said=yes; fi
    mend_cable 2
    await_bytes 2
    cut_cable 4 "$target_space"
    await_bytes 1
    await_bytes 3
    sleep "$(scaled 6)"
    mend_cable 4 "$target_space"
    finish_replay
    [ "$replay_status" = 0 ] || fail "the replay ended in $replay_status"
    expect verified "$(scaled 100)"
    expect failed 0
    expect bytes_wrong 0
    expect pages_written_late 0
    [ "$(figure retries)" -gt 0 ]
}
until_met 3 cut_twice || fail "nothing was posted a second time: the cuts met no transfer"
[ $said = yes ] || fail "the source did not say that a pair of rails is cut: $(cat "$work/pairs")"
grep -qE '(does not reach|is slow to) peer 0 \("decode-0"\)' "$work/prefill.log" || fail "the log does not name the rail that was cut"
wait_for 20 file_has "$work/prefill.log" 'reaches peer 0 ("decode-0") again' || fail "nor that it is back"
