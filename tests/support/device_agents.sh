# shellcheck shell=sh disable=SC2034,SC2154 # shared with programs.sh and the test
# Agents with an emulated device that has their engines' pages, and a replay of eight requests.
# Sourced after programs.sh, with a scheduler running.

# agents PREFILL-OPTIONS DECODE-OPTIONS
agents() {
    if [ -n "${source_agent:-}" ]; then
        kill "$prefill_pid" "$decode_pid"
        wait "$prefill_pid" "$decode_pid" || fail "an agent did not end well"
        source_agent=
    fi
    # What was staged for a link that is silent for three heartbeats ends the transfer with `revoked`: a busy
    # machine must not be taken for that.
    prefill_options="--heartbeat 5s $1" decode_options="--heartbeat 5s $2"
    start_prefill
    start_decode
}

# good WHERE ARGUMENT…: WHERE is which engines have pages on the device.
good() {
    where=$1
    shift
    replay --requests 8 --device-memory "$where" "$@" || fail "$where $* ended in $?"
    expect transfers 8
    expect verified 8
    expect bytes_wrong 0
    expect pages_written_late 0
}
