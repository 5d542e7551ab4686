#!/bin/sh
# Goal: no session ticket stands for a certificate. Agents and the scheduler give none, and a client that offers
# one gets no further than its certificate does: also when that has expired or is revoked, and after a restart.
# Each try is refused with its sentence and counted, and replays beside it lose nothing. Method: tls_ticket
# (tests/support/tls_ticket.c) with tickets of a server of its own, and with any that it was given.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
secure=yes
need kvrail kvrail-scheduler prefill-agent decode-agent ../tests/tls_files ../tests/tls_ticket
mkdir -p -m 0700 "$tls"
files() { "$bin/../tests/tls_files" "$tls" "$@"; }
ticket() { timeout $((60 * patience)) "$bin/../tests/tls_ticket" "$@"; }
with() { echo "certificate=$tls/$1.pem key=$tls/$1.key"; }

"$bin/kvrail" certificates init "$tls" --fleet f >"$work/certificates.log"
"$bin/kvrail" certificates issue "$tls" scheduler scheduler client tests prefill prefill-0 prefill spare \
    decode decode-0 --host 127.0.0.1 >>"$work/certificates.log"
cp "$tls/ca-key.pem" "$tls/ca.key"
files certificate ca decode kvrail://f/decode/decode-1 >"$work/serials"
files certificate ca client kvrail://f/client/c >>"$work/serials"
files crl ca crl

# Of programs.sh: with a list of revoked certificates.
credentials() {
    echo "--tls-certificate $tls/$2.pem --tls-key $tls/$2-key.pem --tls-ca $tls/ca.pem --tls-crl $tls/crl.pem"
}
start_all
# An agent that can be restarted beside the replays.
start_spare() {
    rm -f "$work/spare.port"
    # shellcheck disable=SC2046 # options
    start spare "$bin/prefill-agent" --name spare $(credentials prefill spare) --engine-socket "$work/spare.sock" \
        --listen "127.0.0.1:${spare:-0}" --rail 127.0.0.1 --port-file "$work/spare.port" --scheduler "$scheduler" \
        --state-dir "$work/spare"
    spare_pid=$started
    await spare "$work/spare.port"
    spare=$(cat "$work/spare.port")
}
start_spare
replays_beside 8

# shellcheck disable=SC2046 # two words
ticket own "$work/own" $(with decode) || fail "a server of our own gives no ticket"
[ -s "$work/own" ] || fail "the ticket of our own server was not kept"

# offers PORT TICKET ANSWER ARGUMENT…: the answer begins so.
offers() {
    port=$1 file=$2 wanted=$3
    shift 3
    answer=$(ticket "$port" "$file" "$@") || fail "tls_ticket $* ended in $?"
    case $answer in
    "$wanted"*) ;;
    *) fail "port $port, the ticket $(basename "$file"), $*: '$answer' is not '$wanted'" ;;
    esac
}

# counted AGENT COUNTER NUMBER SENTENCE: in the agent's log too.
has_counted() { [ "$(metrics | sed -n "s/^kvrail_tls_$2_total{agent=\"$1\".*} //p")" = "$3" ]; }
counted() {
    wait_for 20 has_counted "$1" "$2" "$3" || fail "tls_$2 is not $3: $(metrics | grep "kvrail_tls_$2")"
    file_has "$work/${1%-0}.log" "$4" || fail "$1 does not say '$4'"
}
refusals() { metrics | sed -n "s/^kvrail_http_refusals_total{reason=\"$1\"} //p"; }

# ---- with a good certificate: nothing is given, nothing is taken

agent=${source_agent#*:}
web=${scheduler#*:}
get=$(printf 'say=GET /api/v1/agents HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n.')
get=${get%.}
# shellcheck disable=SC2046
{
    offers "$agent" "$work/given" "anew none" $(with decode)
    offers "$agent" "$work/own" "anew none" $(with decode)
    offers "$spare" "$work/spare.given" "anew none" $(with decode)
    offers "$web" "$work/web.given" "anew none HTTP/1.1 200" $(with client) "$get"
    offers "$web" "$work/own" "anew none HTTP/1.1 200" $(with client) "$get"
}
for given in given spare.given web.given; do
    [ ! -e "$work/$given" ] || fail "a ticket was given: $given"
    cp "$work/own" "$work/$given"
done

# ---- without a certificate

offers "$agent" "$work/given" "alert Certificate is required"
counted prefill-0 no_certificate 1 "it showed no certificate"
offers "$web" "$work/web.given" "anew none HTTP/1.1 401" "$get"
[ "$(refusals no_token)" = 1 ] || fail "the scheduler has not counted it: $(refusals no_token)"

# ---- after a restart

kill "$spare_pid"
wait "$spare_pid" || fail "the spare agent ended in $?"
start_spare
offers "$spare" "$work/spare.given" "alert Certificate is required"
counted spare no_certificate 1 "it showed no certificate"

# ---- the certificate is revoked

# shellcheck disable=SC2046 # numbers
files crl ca crl $(cat "$work/serials")
wait_for 10 file_has "$work/prefill.log" "certificates are read anew" || fail "the list is not read"
# shellcheck disable=SC2046
{
    offers "$agent" "$work/given" "alert Certificate was revoked" $(with decode)
    counted prefill-0 revoked 1 "its certificate is revoked"
    wait_for 10 file_has "$work/scheduler.log" "certificates are read again" || fail "the scheduler does not read the list"
    offers "$web" "$work/web.given" "anew none HTTP/1.1 403" $(with client) "$get"
}
[ "$(refusals bad_certificate)" = 1 ] || fail "the scheduler has not counted it: $(refusals bad_certificate)"

# ---- the certificate has expired

files certificate ca decode kvrail://f/decode/decode-1 $((3 * patience)) >/dev/null
# shellcheck disable=SC2046
offers "$agent" "$work/given" "anew none" $(with decode)
sleep $((3 * patience + 1))
# shellcheck disable=SC2046
offers "$agent" "$work/given" "alert Certificate is expired" $(with decode)
counted prefill-0 expired 1 "its certificate expired at"

finish_replays_beside

# ---- the scheduler restarts

kill "$scheduler_pid"
wait "$scheduler_pid" || fail "the scheduler ended in $?"
start_scheduler
offers "$web" "$work/web.given" "anew none HTTP/1.1 401" "$get"
[ "$(refusals no_token)" = 1 ] || fail "the scheduler has not counted it: $(refusals no_token)"
