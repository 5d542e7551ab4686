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

# fails_within MS: a fetch fails with the reason, so soon after it began.
fails_within() {
    status=0
    rm -f "$work/replay.log"
    replay --requests 1 --deadline $((20 * patience))s || status=$?
    [ "$status" != 0 ] || fail "a replay ended well without a rail"
    in_log 'failures  *no_rail 1'
    took=$(figure seconds | awk '{ print int(1000 * $1) }')
    [ "$took" -lt $(($1 * patience)) ] || fail "a fetch failed after $took ms, and not within $1 ms"
    echo "no_rail after $took ms"
}

# fails_soon FIRST: the first fetch within so many ms, later ones within three seconds, three heartbeats.
fails_soon() {
    for bound in "$1" 3000 3000; do
        fails_within "$bound"
    done
}

drop_rails
start_cabled_agents
fails_soon 3000
file_has "$work/prefill.log" "no rail reaches peer 0" || fail "the log does not say that no rail reaches the peer"

admit_rails
replay --requests 10 || fail "a replay over the mended rails ended in $?"
expect verified 10
expect bytes_wrong 0

# Now that bytes have come through: the network may have broken for a moment.
drop_rails
fails_soon 12000
admit_rails
replay --requests 10 || fail "a replay over the rails mended twice ended in $?"
expect verified 10
expect bytes_wrong 0
