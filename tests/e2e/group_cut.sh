#!/bin/sh
# Goal: when every rail of a group is cut in mid transfer, another group's carry on, and every byte
# arrives; where that is not allowed, transfers fail and say why. Method: agents in two network
# namespaces joined by four veth pairs, two for each rail group; both cables of the group that the
# engines have are cut while a replay runs over them.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
need kvrail prefill-agent decode-agent
lay_cables 4
cap_cables 400mbit
heartbeat=1s # the agents must not lose each other where they wait for a core
rails_of() { echo "--group 10.78.1.$1+10.78.2.$1 --group 10.78.3.$1+10.78.4.$1"; }

# cut_group OPTION: a replay under which rail group 0 is lost.
cut_group() {
    prefill_options=$1 decode_options=$1
    start_cabled_agents
    replay_in_background --requests 12 --pool-bytes 256M --no-prefix-cache --kv-bytes-per-token 4k
    await_bytes 1
    cut_cable 1
    cut_cable 2
}

cut_group --group-failover
before=$(rail_bytes 3)
finish_replay
[ "$replay_status" = 0 ] || fail "the replay ended in $replay_status"
expect verified 12
expect failed 0
expect bytes_wrong 0
expect pages_written_late 0
[ $(($(rail_bytes 3) - before)) -gt 1048576 ] || fail "the other group carried nothing"
grep -q 'rail group 1 carries on' "$work/prefill.log" || fail "the log does not name the other group"
kill "$prefill_pid" "$decode_pid"
wait "$prefill_pid" "$decode_pid" || true

mend_cable 1
mend_cable 2
cut_group --no-group-failover
finish_replay
[ "$replay_status" != 0 ] || fail "the replay ended well without a rail"
expect bytes_wrong 0
[ "$(figure failed)" -gt 0 ] || fail "nothing failed"
in_log 'failures  *no_rail'
