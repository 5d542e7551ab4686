#!/bin/sh
# Goal: where no rail of a peer can be reached, fetches end soon with that reason, not at their deadline; when the
# network is mended they succeed. Method: agents in two network namespaces; a packet filter drops all that
# arrives over the rails, from the start on, and the control channel goes on.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/support/cables.sh"
need kvrail prefill-agent decode-agent
need_filter
lay_cables 2
heartbeat=1s

drop_rails() {
    ip netns exec "$target_space" nft "
        add table ip hole
        add chain ip hole arrivals { type filter hook input priority 0; }
        add rule ip hole arrivals ip saddr { 10.78.1.0/24, 10.78.2.0/24 } drop" || exit 77
}
admit_rails() { ip netns exec "$target_space" nft delete table ip hole; }

# fails_soon: fetches fail, one after the other, with the reason, and all before the first one's deadline.
fails_soon() {
    status=0
    began=$(date +%s)
    replay --requests 3 --concurrency 1 --deadline $((20 * patience))s || status=$?
    [ "$status" != 0 ] || fail "a replay ended well without a rail"
    in_log 'failures  *no_rail 3'
    [ $(($(date +%s) - began)) -lt $((20 * patience)) ] || fail "the failures came no sooner than by the deadline"
}

drop_rails
start_cabled_agents
fails_soon
file_has "$work/prefill.log" "no rail reaches peer 0" || fail "the log does not say that no rail reaches the peer"

admit_rails
replay --requests 10 || fail "a replay over the mended rails ended in $?"
expect verified 10
expect bytes_wrong 0

# Now that bytes have come through.
drop_rails
fails_soon
admit_rails
replay --requests 10 || fail "a replay over the rails mended twice ended in $?"
expect verified 10
expect bytes_wrong 0
