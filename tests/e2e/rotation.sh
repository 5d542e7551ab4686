#!/bin/sh
# Goal: every certificate of a running fleet can be replaced under load, and its CA too, and no transfer fails.
# Method: replays side by side, and new certificates for scheduler, agents and client: when the files change, on
# SIGHUP, and of a second CA, which all trust first beside the old one and then alone. Connections with the old
# CA's certificates, and later those with expired ones, are replaced; the sessions go on.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
secure=yes
need kvrail kvrail-scheduler prefill-agent decode-agent ../tests/tls_files
command -v curl >/dev/null || { echo "there is no curl" >&2; exit 77; }
mkdir -p -m 0700 "$tls"
files() { "$bin/../tests/tls_files" "$tls" "$@"; }

# issue_all CA [SECONDS]: certificates of that CA for each; those of the agents end in so many seconds.
issue_all() {
    files certificate "$1" prefill-0 kvrail://f/prefill/prefill-0 ${2:+"$2"} >/dev/null
    files certificate "$1" decode-0 kvrail://f/decode/decode-0 ${2:+"$2"} >/dev/null
    files certificate "$1" scheduler kvrail://f/scheduler/scheduler >/dev/null
    files certificate "$1" tests kvrail://f/client/tests >/dev/null
    cp "$tls/tests.key" "$tls/tests-key.pem"
}

# trust CA…: all believe these.
trust() {
    for name in "$@"; do
        cat "$tls/$name.pem"
    done >"$tls/trust.next"
    mv "$tls/trust.next" "$tls/ca.pem"
}

# read_anew TIMES: since the start each program has read its files so often.
has_read() {
    [ "$(grep -c 'certificates are read anew' "$work/prefill.log")" -ge "$1" ] &&
        [ "$(grep -c 'certificates are read anew' "$work/decode.log")" -ge "$1" ] &&
        [ "$(grep -c 'certificates are read again' "$work/scheduler.log")" -ge "$1" ]
}
read_anew() {
    wait_for 20 has_read "$1" || fail "not all have read their files for the time $1"
    for agent in prefill decode; do # and the agents' reports reach the scheduler
        wait_for 20 counts "$agent-0" tls_reloads "$1" || fail "$agent-0 does not report time $1"
    done
    tool status --scheduler "$scheduler" >"$work/status" || fail "a client's status ended in $?"
}

counter() { metrics | sed -n "s/^kvrail_$2_total{agent=\"$1\".*} //p"; }
counts() { value=$(counter "$1" "$2") && [ "${value:-0}" -ge "$3" ]; }

# go_on: replays end a round that began after now.
go_on() {
    for number in 1 4 8; do
        wanted=$(($(wc -l <"$work/beside-$number.rounds") + 2))
        wait_for 60 has_ended "$number" "$wanted" || fail "replay $number does not go on"
    done
}
has_ended() { [ "$(wc -l <"$work/beside-$1.rounds")" -ge "$2" ]; }

credentials() { echo "--tls-certificate $tls/$2.pem --tls-key $tls/$2.key --tls-ca $tls/ca.pem"; }
files ca old
files ca new
trust old
issue_all old
start_all
replays_beside 8

# ---- twice: by files, and by SIGHUP

issue_all old
read_anew 1
issue_all old
kill -HUP "$prefill_pid" "$decode_pid" "$scheduler_pid"
read_anew 2

# ---- another CA

began=$(date +%s)
trust old new
read_anew 3
# Long enough for four more such rounds, on a busy machine too: a newer certificate must come before the end.
life=$((8 * patience + 5 * ($(date +%s) - began)))
issue_all new $life
read_anew 4
trust new
read_anew 5
ended() { counts prefill-0 "tls_$1" 1 || counts decode-0 "tls_$1" 1; }
wait_for 20 ended unknown_ca || fail "the connection with certificates of the old CA stays"

# ---- these end by time, after newer ones have come

issue_all new
read_anew 6
wait_for $((20 + life)) ended expired || fail "the connection with expired certificates stays"
go_on

finish_replays_beside
verified=$(($(cat "$work"/beside-*.rounds | wc -l) * 10))
all_done() { ask_scheduler /api/v1/summary | grep -q "\"done\":$verified\\b"; }
wait_for 30 all_done || fail "the scheduler does not know of $verified transfers: $(ask_scheduler /api/v1/summary)"
for agent in prefill-0 decode-0; do
    [ "$(counter $agent peers_lost)" = 0 ] || fail "$agent has lost its session"
done
