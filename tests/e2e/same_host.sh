#!/bin/sh
# Goal: agents of one host copy by themselves, beside their cards, without an option; logs and records show
# the way of the bytes. Where one agent does not copy, cards carry all bytes. This holds with as many cards
# as an agent may have, too. Method: replays between agents that do both, then with one over tcp alone, then
# as before; then with 32 cards each.
set -eu
provider=tcp+local
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
start_all

# good PATH COUNT: one more replay, after which so many transfers went that way.
good() {
    replay --requests 8 || fail "over $1 a replay ended in $?"
    expect verified 8
    expect bytes_wrong 0
    expect pages_written_late 0
    for role in source target; do
        moved $role "$1" "$2"
    done
}

# again PREFILL DECODE: both are started anew, over these providers.
again() {
    kill "$prefill_pid" "$decode_pid"
    wait "$prefill_pid" "$decode_pid" || fail "an agent did not end well"
    source_agent=
    provider=$1 && start_prefill
    provider=$2 && start_decode
}

good local 8
grep -q 'is on this host: its pages are copied from memory that both map' "$work/decode.log" ||
    fail "the decode-agent does not say how it reaches its peer"
grep -q 'is on this host: it may copy pages from memory that both map' "$work/prefill.log" ||
    fail "the prefill-agent does not say how it is reached"
again tcp+local tcp
good host 8
grep -q 'is reached over tcp alone, not by provider local: it has no rail for that' \
    "$work/prefill.log" || fail "the prefill-agent does not say why it copies nothing"
again tcp+local tcp+local
good local 16

rails=
for card in $(seq 32); do
    rails="$rails --rail 127.0.0.$card"
done
again tcp+local tcp+local
good local 24
for role in prefill decode; do
    grep -q 'is ready: .* 33 rails' "$work/$role.log" || fail "the $role-agent has not 33 rails"
done
