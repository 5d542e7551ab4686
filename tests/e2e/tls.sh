#!/bin/sh
# Goal: no peer without a good certificate gets anything from an agent, each is refused with a sentence and
# counted, and replays beside it lose nothing. Method: a small CA, two agents with certificates, replays side by
# side, and tls_knock (tests/support/tls_knock.c) at the prefill-agent's port.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent ../tests/tls_files ../tests/tls_hear ../tests/tls_knock ../tests/garbage ../tests/lone
tls=$work/tls
mkdir -p -m 0700 "$tls"
files() { "$bin/../tests/tls_files" "$tls" "$@"; }
knock() { "$bin/../tests/tls_knock" "${source_agent#*:}" "$@"; }

# options NAME: the certificate of that name.
options() {
    echo "--tls-certificate $tls/$1.pem --tls-key $tls/$1.key --tls-ca $tls/ca.pem --tls-crl $tls/crl.pem"
}

# counted NAME COUNT: the agents' counter, once they have reported it.
has_counted() {
    [ "$(metrics | sed -n "s/^kvrail_tls_$1_total{agent=\"prefill-0\".*} //p")" = "$2" ]
}
counted() {
    wait_for 20 has_counted "$@" || fail "tls_$1 is not $2: $(metrics | grep kvrail_tls_)"
}

# The scheduler and this test's questions to it have certificates of the command; its CA signs ours too.
secure=yes
"$bin/kvrail" certificates init "$tls" --fleet f >"$work/certificates.log"
"$bin/kvrail" certificates issue "$tls" scheduler scheduler client tests --host 127.0.0.1 >>"$work/certificates.log"
cp "$tls/ca-key.pem" "$tls/ca.key"
files ca other
files certificate ca prefill kvrail://f/prefill/prefill-0 >/dev/null
files certificate ca decode kvrail://f/decode/decode-0 >/dev/null
files certificate ca client kvrail://f/client/c >/dev/null
files certificate ca liar kvrail://f/prefill/liar >/dev/null
files certificate ca target kvrail://f/decode/garbage >/dev/null
files certificate ca source kvrail://f/prefill/garbage >/dev/null
files certificate ca renamed kvrail://f/decode/decode-1 >/dev/null
files certificate ca expired kvrail://f/decode/decode-0 -60 >/dev/null
files certificate ca nameless - >/dev/null
files certificate other forged kvrail://f/decode/decode-0 >/dev/null
files certificate ca elsewhere kvrail://g/decode/decode-0 >/dev/null
revoked=$(files certificate ca revoked kvrail://f/decode/decode-0)
files crl ca crl "$revoked"

# A certificate that peers would refuse does not start.
for wrong in "expired expired at" "revoked is revoked" "forged lead to the CA" "prefill has the role prefill" \
    "renamed names decode-1" "nameless names no program"; do
    # shellcheck disable=SC2046 # a list of options
    ! "$bin/decode-agent" --name decode-0 --engine-socket "$work/no.sock" $(options "${wrong%% *}") \
        >"$work/no.log" 2>&1 </dev/null || fail "an agent starts with a certificate that is $wrong"
    file_has "$work/no.log" "${wrong#* }" || fail "it does not say '${wrong#* }': $(cat "$work/no.log")"
done

# Certificates open an address to other hosts.
# shellcheck disable=SC2046
start open "$bin/prefill-agent" --name prefill-0 $(options prefill) --engine-socket "$work/open.sock" \
    --listen 0.0.0.0:0 --rail 127.0.0.1 --port-file "$work/open.port"
await open "$work/open.port"
kill "$started"

# Of programs.sh: agents have the certificates of above.
credentials() {
    case $1 in
    scheduler) echo "--tls-certificate $tls/scheduler.pem --tls-key $tls/scheduler-key.pem --tls-ca $tls/ca.pem" ;;
    *) options "${2%-0}" ;;
    esac
}
start_all
replay --requests 10 || fail "a replay over TLS ended in $?"
expect verified 10

# ---- attacks, beside replays ----
replays_beside 8

# refused COUNTER ALERT SENTENCE ARGUMENT…
refused() {
    counter=$1 alert=$2 sentence=$3
    shift 3
    answer=$(knock "$@") || fail "tls_knock $* ended in $?"
    case $answer in
    *"$alert"*) ;;
    *) fail "tls_knock $*: '$answer' is not '$alert'" ;;
    esac
    wait_for 5 file_has "$work/prefill.log" "$sentence" || fail "$counter: it does not say '$sentence'"
    counted "$counter" 1
}
has_flooded() { [ "$(metrics | sed -n "s/^kvrail_tls_flood_total{agent=\"$1-0\".*} //p")" = 1 ]; }
with() { echo "certificate=$tls/$1.pem key=$tls/$1.key"; }

# shellcheck disable=SC2046 # two words each
{
    refused no_certificate "ertificate" "it showed no certificate"
    refused unknown_ca "CA is unknown" "does not lead to the CA" $(with forged)
    refused expired "expired" "its certificate expired at" $(with expired)
    refused revoked "revoked" "its certificate is revoked" $(with revoked)
    refused no_identity "ertificate is bad" "names no program" $(with nameless)
    refused fleet "denied" "is of the fleet g, not of f" $(with elsewhere)
    refused role "denied" "has the role client, here only decode may" $(with client)
    refused protocol "version" "it does not speak TLS 1.3" $(with decode) \
        "priority=NORMAL:-VERS-ALL:+VERS-TLS1.2"
}
# A HELLO without TLS, as an older agent's: a sentence that it can read.
printf '\0\0\0\10\1\2\3\4\5\6\7\10' >"$work/hello"
refused plain "takes TLS alone" "it does not speak TLS" plain send="$work/hello"
# fetch_in_vain REQUEST PORT-FILE: from the host that listens there.
fetch_in_vain() {
    wait_for 20 file_has "$2" "" || fail "the host of $1 does not listen"
    status=0
    timeout $((30 * patience)) "$bin/../tests/lone" target "$work/target.sock" "$1" "127.0.0.1:$(cat "$2")" 1 \
        >"$work/lone.log" 2>&1 || status=$?
    [ $status = 3 ] || fail "the fetch of $1 ended in $status: $(cat "$work/lone.log")"
}
# What a decode-agent has said to another host, said again: with the certificate of another agent, with one of
# another role, and as one on the wire sees it.
"$bin/../tests/tls_hear" "$tls/liar.pem" "$tls/liar.key" "$work/liar.port" "$work/heard" &
hear_pid=$!
started_pids="$started_pids $hear_pid"
fetch_in_vain heard "$work/liar.port"
wait $hear_pid || fail "the liar has heard no HELLO"
file_has "$work/heard" decode-0 || fail "what was heard is no HELLO of decode-0"
# shellcheck disable=SC2046
{
    refused name "answered" "but its certificate names decode-1" $(with renamed) send="$work/heard"
    knock $(with decode) send="$work/hello" record="$work/recorded" >/dev/null || fail "recording ended in $?"
    answer=$(knock $(with liar) send="$work/heard") || fail "a liar's HELLO ended in $?"
}
[ "${answer#alert}" != "$answer" ] || fail "a prefill-agent that dials: '$answer'"
counted role 2
[ "$(wc -c <"$work/recorded")" -gt 500 ] || fail "a session of $(wc -c <"$work/recorded") bytes was recorded"
knock plain send="$work/recorded" >/dev/null || fail "a recorded session ended in $?"
wait_for 5 file_has "$work/prefill.log" "TLS 1.3 with it fails" || fail "a recorded session is not refused"
counted protocol 2
# Changes of keys without end, from a decode-agent; session tickets without end, from a prefill-agent.
flood() { "$bin/../tests/garbage" --seed 1 --sessions 1 "$@" >>"$work/flood.log" 2>&1; }
flood --kind control --shape key-updates --address "$source_agent" --certificate "$tls/target.pem" \
    --key "$tls/target.key" || fail "the flood of keys ended in $?"
flood --kind source --shape tickets --address 127.0.0.1:0 --port-file "$work/tickets.port" \
    --certificate "$tls/source.pem" --key "$tls/source.key" &
tickets_pid=$!
started_pids="$started_pids $tickets_pid"
fetch_in_vain tickets "$work/tickets.port"
wait $tickets_pid || fail "the flood of tickets ended in $?"
for victim in prefill decode; do
    wait_for 5 file_has "$work/$victim.log" "it sent too many messages about keys or tickets" ||
        fail "$victim.log does not tell of the flood"
    wait_for 20 has_flooded $victim || fail "tls_flood is not 1: $(metrics | grep kvrail_tls_flood)"
done
# One byte a record segment; then a frame that is no HELLO.
# shellcheck disable=SC2046
knock $(with decode) pieces=1 send="$work/hello" >"$work/pieces" || fail "pieces ended in $?"
file_has "$work/pieces" answered || fail "a handshake byte by byte: $(cat "$work/pieces")"
# One that begins a handshake and says no more; 2,000 from one address, opened again as they are closed. Another
# address connects all the while, and no session is lost.
# shellcheck disable=SC2046
knock $(with decode) cut=100 >/dev/null &
cut_pid=$!
knock from=127.0.0.2 open=2000 seconds=$((8 * patience)) >"$work/flood" &
flood_pid=$!
wait_for 20 file_has "$work/prefill.log" "have sent no HELLO yet" || fail "no half-open one was closed"
wait_for 20 file_has "$work/prefill.log" "more connections begin than" || fail "the flood is not put off"
beside=0 # peers that were answered while the flood lasted
for round in 1 2 3 4 5; do
    # shellcheck disable=SC2046
    knock $(with decode) send="$work/hello" >"$work/beside" || fail "a peer beside the flood ended in $?"
    file_has "$work/beside" answered || fail "a peer beside the flood: $(cat "$work/beside")"
    is_running $flood_pid || break
    beside=$round
done
[ $beside -gt 0 ] || fail "no peer beside the flood was answered before the flood ended"
wait $flood_pid || fail "the flood ended in $?"
wait $cut_pid || true
[ "$(sed 's/opened //' "$work/flood")" -ge 2000 ] || fail "only $(cat "$work/flood")"
rises() { [ "$(metrics | sed -n "s/^kvrail_$1_total{agent=\"prefill-0\".*} //p")" -gt 0 ]; }
for name in hellos_limited young_closed tls_cut; do
    wait_for 20 rises $name || fail "$name does not count"
done

finish_replays_beside
replay --requests 10 || fail "a replay after the attacks ended in $?"

# A broken file changes nothing, and is said.
cp "$tls/decode.key" "$work/kept.key"
echo broken >"$tls/decode.key"
wait_for 10 file_has "$work/decode.log" "certificates stay as they were" || fail "a broken key is not said"
replay --requests 10 || fail "a replay with the old certificate ended in $?"
cp "$work/kept.key" "$tls/decode.key"

# ---- a revocation meets the live session ----
serial=$(files certificate ca decode kvrail://f/decode/decode-0)
wait_for 10 file_has "$work/decode.log" "certificates are read anew" || fail "it was not read anew"
kill "$decode_pid"
wait "$decode_pid" || true
start_decode
replay --requests 10 || fail "a replay with the new certificate ended in $?"
files crl ca crl "$serial"
wait_for 10 file_has "$work/prefill.log" "is lost (refused)" || fail "the revoked peer keeps its session"
status=0
replay --requests 3 || status=$?
[ "$status" != 0 ] || fail "a revoked agent fetches"

# ---- one side without TLS ----
kill "$decode_pid"
wait "$decode_pid" || true
credentials() { echo "--insecure"; }
start_decode
status=0
replay --requests 2 || status=$?
[ "$status" != 0 ] || fail "an agent without TLS fetches"
wait_for 10 file_has "$work/decode.log" "takes TLS alone" || fail "it does not hear that TLS is needed"
