#!/bin/sh
# Goal: over TLS the scheduler refuses what a foreign page makes a browser send, tokens in a URL, guesses without
# end, certificates that are no good, and reports in the name of another agent. Each gets its status and
# sentence, and is counted. A flood of half-open handshakes takes nothing from others. Those that have a right are
# served meanwhile, and replays beside it lose nothing. Method: curl and tls_knock, and a scheduler with tokens.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
secure=yes
need kvrail kvrail-scheduler prefill-agent decode-agent ../tests/tls_files ../tests/tls_knock
command -v curl >/dev/null || { echo "there is no curl" >&2; exit 77; }
mkdir -p -m 0700 "$tls"
files() { "$bin/../tests/tls_files" "$tls" "$@"; }

"$bin/kvrail" certificates init "$tls" --fleet f >"$work/certificates.log"
"$bin/kvrail" certificates issue "$tls" scheduler scheduler client tests prefill prefill-0 decode decode-0 \
    --host 127.0.0.1 --host localhost >>"$work/certificates.log"
cp "$tls/ca-key.pem" "$tls/ca.key"
files ca other
files certificate other forged kvrail://f/client/c >/dev/null
files certificate ca expired kvrail://f/client/c -60 >/dev/null
files certificate ca elsewhere kvrail://g/client/c >/dev/null
files certificate ca agent kvrail://f/decode/decode-0 >/dev/null
files certificate ca other_agent kvrail://f/decode/decode-1 >/dev/null
files certificate ca other_role kvrail://f/prefill/prefill-1 >/dev/null
files certificate ca person kvrail://f/client/decode-0 >/dev/null
files certificate ca expired_agent kvrail://f/decode/decode-0 -60 >/dev/null
files crl ca crl "$(files certificate ca revoked kvrail://f/client/c)"
reader=$("$bin/kvrail" token reader read --append "$work/tokens") || fail "no token was made"
actor=$("$bin/kvrail" token ops act --append "$work/tokens") || fail "no token was made"

scheduler_options="--token-file $work/tokens --tls-crl $tls/crl.pem"
start_all
replays_beside 8

refusals() { metrics | sed -n "s/^kvrail_http_refusals_total{reason=\"$1\"} //p"; }
browse() { curl -sS -m $((20 * patience)) --cacert "$tls/ca.pem" "$@"; }
bearer() { echo "Authorization: Bearer $1"; }

# refused STATUS REASON SENTENCE PATH [CURL-ARGUMENT…]
refused() {
    status=$1 reason=$2 sentence=$3 path=$4
    shift 4
    before=$(refusals "$reason")
    got=$(browse -o "$work/body" -w '%{http_code}' "$@" "https://$scheduler$path" 2>"$work/curl.log") || true
    [ "$got" = "$status" ] || fail "$path $*: $got, not $status: $(cat "$work/body" "$work/curl.log")"
    file_has "$work/body" "$sentence" || fail "$path $*: no '$sentence' in: $(cat "$work/body")"
    [ "$(refusals "$reason")" = $((before + 1)) ] ||
        fail "$path $*: $reason is $(refusals "$reason"), and was $before"
}

# served CURL-ARGUMENT…
served() {
    got=$(browse -o "$work/body" -w '%{http_code}' "$@" "https://$scheduler/api/v1/agents" 2>"$work/curl.log") || true
    [ "$got" = 200 ] || fail "$*: $got: $(cat "$work/body" "$work/curl.log")"
}
with() { echo "--cert $tls/$1.pem --key $tls/$1.key"; }

agents=/api/v1/agents order=/api/v1/requests/r/abandon
served -H "$(bearer "$reader")"
served -H "$(bearer "$actor")"

# ---- a foreign page, in the browser of one that has a right

name="this name is not this program's"
refused 421 foreign_host "$name" /metrics -H 'Host: evil.example'
refused 421 foreign_host "$name" $agents -H "$(bearer "$reader")" -H 'Host: localhost.evil.example'
refused 421 foreign_host "$name" $order -X POST -H "$(bearer "$actor")" -H 'Host: 127.0.0.1.evil.example'
site="a page of another site gets nothing here"
refused 403 foreign_origin "$site" $order -X POST -H "$(bearer "$actor")" -H 'Origin: https://evil.example'
refused 403 foreign_origin "$site" $agents -H "$(bearer "$reader")" -H 'Origin: null'
refused 403 foreign_origin "$site" $agents -H "$(bearer "$reader")" -H 'Sec-Fetch-Site: cross-site'
browse -o "$work/body" -c "$work/cookies" -X POST -H "$(bearer "$actor")" "https://$scheduler/api/v1/session" ||
    fail "signing in ended in $?"
served -b "$work/cookies"
refused 403 no_header "needs the header X-Kvrail-Request" $order -X POST -b "$work/cookies"

# ---- tokens where they do not belong, and rights that are not there

url="a token in a URL stays in logs and histories"
refused 400 token_in_url "$url" "$agents?token=$reader"
refused 400 token_in_url "$url" "/$actor" -H "$(bearer "$reader")"
refused 400 token_in_url "$url" "$order?access_token=$actor" -X POST
refused 400 token_in_url "$url" "/api/v1/transfers?request=$reader" -H "$(bearer "$reader")"
refused 403 no_right "this token may read and not act" $order -X POST -H "$(bearer "$reader")"
refused 401 no_token "a token is needed" $agents
refused 401 no_certificate "agents report with their certificate" /ingest/v1/events -X POST \
    -H 'Content-Type: application/x-protobuf'

# ---- certificates that are no good

bad="the client certificate is not accepted"
# shellcheck disable=SC2046 # four words each
{
    for wrong in forged expired revoked elsewhere; do
        refused 403 bad_certificate "$bad" $agents $(with $wrong)
    done
    refused 403 wrong_role "a certificate of this role may not do this" $agents $(with agent)
}

# ---- reports of those that are not the agent: none changes what is known of it

# reported NAME: a report in that agent's name, the first of its boot.
reported() {
    printf '\12\10%s\21\7\0\0\0\0\0\0\0\102\10\12\6target' "$1" >"$work/report"
}
# shellcheck disable=SC2046 # four words each
{
    set -- -X POST -H 'Content-Type: application/x-protobuf' --data-binary "@$work/report"
    ingest=/ingest/v1/events name="the report names another agent than the certificate it came with"
    reported decode-0
    refused 403 wrong_name "$name" $ingest "$@" $(with other_agent)
    refused 403 wrong_name "$name" $ingest "$@" $(with other_role)
    reported decode-9
    refused 403 wrong_name "$name" $ingest "$@" $(with other_agent)
    refused 403 wrong_role "a certificate of this role may not do this" $ingest "$@" $(with person)
    refused 403 bad_certificate "$bad" $ingest "$@" $(with expired_agent)
    refused 401 no_certificate "agents report with their certificate" $ingest "$@"
    browse -o "$work/body" -H "$(bearer "$reader")" "https://$scheduler$agents" || fail "no agents are listed"
    file_has "$work/body" '"decode-0"' || fail "decode-0 is not listed: $(cat "$work/body")"
    ! file_has "$work/body" decode-9 || fail "an agent is listed that there is not: $(cat "$work/body")"
    ! file_has "$work/body" decode-1 || fail "one that never reported is listed: $(cat "$work/body")"
    reported decode-1
    got=$(browse -o "$work/body" -w '%{http_code}' "$@" $(with other_agent) "https://$scheduler$ingest")
    [ "$got" = 200 ] || fail "its own report is answered $got: $(cat "$work/body")"
}

# ---- 2,000 half-open handshakes from one address, opened again as they are closed

total() { metrics | sed -n "s/^kvrail_$1 //p"; }
silent=$(total http_silent_connections_total)
events=$(total ingest_events_total)
"$bin/../tests/tls_knock" "${scheduler#*:}" from=127.0.0.2 open=2000 seconds=$((8 * patience)) >"$work/flood" &
flood_pid=$!
started_pids="$started_pids $flood_pid"
fastest=100000 # of those while the flood lasts: on a busy machine any one may wait for a core
for round in 1 2 3 4 5; do
    began=$(date +%s%3N)
    served -H "$(bearer "$reader")"
    took=$(($(date +%s%3N) - began))
    is_running $flood_pid || break
    [ $took -ge $fastest ] || fastest=$took
    held=$(find "/proc/$scheduler_pid/fd" -mindepth 1 -lname 'socket:*' | wc -l)
    [ "$held" -lt 256 ] || fail "the scheduler holds $held sockets beside the flood"
    sleep 0.5
done
[ $fastest -lt $((1000 * patience)) ] || fail "requests beside the flood took $fastest ms, or it ended first"
wait $flood_pid || fail "the flood ended in $?"
[ "$(sed 's/opened //' "$work/flood")" -ge 2000 ] || fail "only $(cat "$work/flood")"
rose() { [ "$(total "$1")" -ge $(($2 + $3)) ]; }
wait_for 20 rose http_silent_connections_total "$silent" 100 ||
    fail "of the flood $(($(total http_silent_connections_total) - silent)) connections were counted"
rose ingest_events_total "$events" 1 || fail "no agent reported beside the flood"
served -H "$(bearer "$reader")"

# ---- 1,000 wrong tokens over one connection, a right one among them and after them

for number in $(seq 1000); do
    [ "$number" = 1 ] || echo next
    printf 'url = "https://%s%s"\noutput = "%s"\nwrite-out = "%%{http_code}\\n"\n' "$scheduler" $agents "$work/body"
    printf 'cacert = "%s"\nmax-time = %s\n' "$tls/ca.pem" $((60 * patience))
    token=$(printf 'kvrail_%064x' "$number")
    [ "$number" != 500 ] || token=$reader
    printf 'header = "%s"\n' "$(bearer "$token")"
done >"$work/guesses"
curl -sS --config "$work/guesses" >"$work/statuses" 2>"$work/curl.log" || fail "the guesses ended in $?"
[ "$(grep -c '^200$' "$work/statuses")" = 1 ] || fail "not one token of them was right"
wrong=$(refusals wrong_token) many=$(refusals many_wrong_tokens)
[ $((wrong + many)) = 999 ] || fail "$wrong wrong tokens and $many of many are not 999"
[ "$(grep -c '^401$' "$work/statuses")" = "$wrong" ] || fail "$wrong wrong tokens were answered otherwise"
[ "$(grep -c '^429$' "$work/statuses")" = "$many" ] || fail "$many tokens of many were answered otherwise"
[ "$many" -gt 900 ] || fail "an address may guess $wrong times at once"

# A minute later the address may guess again: on a busy machine that minute ended while it guessed.
one_more() {
    number=$((number + 1))
    [ "$(browse -o /dev/null -w '%{http_code}' -H "$(bearer "$(printf 'kvrail_%064x' $number)")" \
        "https://$scheduler$agents")" = 429 ]
}
wait_for 30 one_more || fail "$((number - 1000)) more guesses were answered"
refused 429 many_wrong_tokens "wait a minute" $agents -H "$(bearer "$(printf 'kvrail_%064x' 1000)")"
served -H "$(bearer "$reader")"

finish_replays_beside
for agent in prefill-0 decode-0; do
    [ "$(total "events_dropped_total{agent=\"$agent\"}")" = 0 ] || fail "$agent has lost events"
done
