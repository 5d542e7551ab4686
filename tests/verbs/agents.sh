# shellcheck shell=sh disable=SC2034 # what is set here is read by programs.sh
# Two agents on soft-RoCE rails: sourced by the cases, after which programs.sh is at hand too. The
# prefill-agent has the rails 1 to 4, the decode-agent 5 to 8, and each uses the first so many.
#
#   agents_with 4 2
provider=verbs
export KVRAIL_BIN_DIR="$KVRAIL_BUILD_DIR/bin"
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
. "$KVRAIL_ROOT_DIR/tests/verbs/rails.sh"
heartbeat_ms=$((500 * patience))
bound_s=$(((3 * heartbeat_ms + 999) / 1000)) # silent for so long, a peer or a pair is lost

rail_options() {
    for rail in $(seq "$1" "$2"); do
        printf -- '--rail %s ' "$(rail_address "$rail")"
    done
}

# agents_with SOURCE_RAILS TARGET_RAILS
agents_with() {
    prefill_rails=$(rail_options 1 "$1")
    decode_rails=$(rail_options 5 $((4 + $2)))
    prefill_options="--heartbeat ${heartbeat_ms}ms"
    decode_options=$prefill_options
    start_all
}

# trace REQUESTS: as many requests of 64 to 1024 tokens, which is at most 2 MiB.
write_trace() {
    echo "TIMESTAMP,ContextTokens,GeneratedTokens"
    for request in $(seq "$1"); do
        echo "2023-11-16 18:17:$((request % 60)).0,$((64 + request * 37 % 15 * 64)),10"
    done >"$work/trace.tmp"
    sort "$work/trace.tmp"
}
