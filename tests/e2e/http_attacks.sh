#!/bin/sh
# Goal: over TLS the scheduler refuses what a foreign page makes a browser send, tokens in a URL, guesses without
# end, and certificates that are no good: each with its status and sentence, and counted. Those that have a right
# are served meanwhile, and replays beside it lose nothing. Method: curl, and a scheduler with tokens.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
secure=yes
need kvrail kvrail-scheduler prefill-agent decode-agent ../tests/tls_files
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

name="this name is not the scheduler's"
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
refused 429 many_wrong_tokens "wait a minute" $agents -H "$(bearer "$(printf 'kvrail_%064x' 1000)")"
served -H "$(bearer "$reader")"

finish_replays_beside
