# shellcheck shell=sh disable=SC2034 # what is set here is read by programs.sh
# Two agents on soft-RoCE rails: sourced by the cases, after which programs.sh and rails.sh are at hand
# too. The prefill-agent has rails 1 to 4, the decode-agent 5 to 8.
#
#   agents_with "1 2 3 4" "5 6"; write_trace 20; replay_trace 20
provider=verbs
KVRAIL_TEST_SECURE=no # a TLS handshake costs the emulated processor 0.6 s, and rails know nothing of TLS
export KVRAIL_BIN_DIR="$KVRAIL_BUILD_DIR/bin"
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/verbs/rails.sh"
heartbeat_ms=$((250 * patience))
bound_ms=$((3 * heartbeat_ms)) # silent for so long, a peer or a pair of rails is lost
quiet_ms=$((100 * patience))   # counts that differ for so long end an epoch

# How long a transfer may take that a fault hits, once a replay without one has been:
#
#   the heartbeat bound: the pair of rails is silent for so long before it counts as broken.
# + 5 × quiet: for so long at most the target waits for late writes, then it ends the epoch.
# + 4 × the longest transfer without a fault, at most two heartbeat bounds: its bytes twice, before and
#   after, over half of the rails.
#
# Ending an epoch (a millisecond on a host, 30 in the VM) and a control round trip lie within the last.
fault_bound_ms() {
    work_ms=$((4 * $(printf '%.0f' "$(figure transfer_ms.max)")))
    [ $work_ms -le $((2 * bound_ms)) ] || work_ms=$((2 * bound_ms))
    echo $((bound_ms + 5 * quiet_ms + work_ms))
}

# How long it may take until all transfers of a killed peer are settled: the heartbeat bound since its last
# beat, and a heartbeat for the beat that was under way. One more for each of two rails to end its epoch,
# which happens one rail at a time.
killed_bound_ms=$((bound_ms + 3 * heartbeat_ms))

rail_options() {
    for one in "$@"; do
        printf -- '--rail %s ' "$(rail_address "$one")"
    done
}

# agents_with SOURCE_RAILS TARGET_RAILS
agents_with() {
    # shellcheck disable=SC2086 # lists of numbers
    prefill_rails=$(rail_options $1) decode_rails=$(rail_options $2)
    prefill_options="--heartbeat ${heartbeat_ms}ms --quiet ${quiet_ms}ms"
    decode_options=$prefill_options
    start_all
}

# write_trace REQUESTS: of 64 to 1024 tokens each, which is at most 2 MiB, in $trace.
write_trace() {
    trace=$work/trace.csv
    {
        echo "TIMESTAMP,ContextTokens,GeneratedTokens"
        for request in $(seq "$1"); do
            printf '2023-11-16 18:%02d:%02d.0,%d,10\n' $((request / 60)) $((request % 60)) \
                $((64 + request * 7 % 16 * 64))
        done
    } >"$trace"
}

# replay_trace REQUESTS [ARGUMENT…]
replay_trace() {
    replay --trace "$trace" --format azure --requests "$@"
}

expect_good() {
    expect transfers "$1"
    expect verified "$1"
    expect failed 0
    expect bytes_wrong 0
    expect pages_written_late 0
}

# of_rail RAIL NAME: a number that the scheduler knows of a rail; an agent reports once a second.
of_rail() {
    ask_scheduler /api/v1/agents | tr '{}' '\n\n' |
        sed -n "s/^\"name\":\"rxe$1\",.*\"$2\":\\([0-9]*\\).*/\\1/p"
}

# await_rail RAIL NAME NUMBER: until that number is larger.
await_rail() {
    wait_for 15 rail_exceeds "$@" || fail "$2 of rail $1 stays at $(of_rail "$1" "$2")"
}

# Before its first report an agent has no rails.
rail_exceeds() {
    count=$(of_rail "$1" "$2")
    [ "${count:-0}" -gt "$3" ]
}
