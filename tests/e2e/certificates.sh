#!/bin/sh
# Goal: `kvrail certificates` makes what another library believes: openssl verifies the chain, the hosts,
# the purposes and the list of revoked certificates. It overwrites nothing without --force, and
# refuses bad names with a sentence.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"

need kvrail
command -v openssl >/dev/null || fail "openssl is missing: sh tests/support/install.sh test"
dir=$work/fleet
certificates="$bin/kvrail certificates"

# refused STATUS TEXT -- COMMAND…: it ends with that status, one sentence with that text, and no more.
refused() {
    status=$1 text=$2
    shift 3
    got=0
    "$@" >"$work/out.log" 2>"$work/refused.log" || got=$?
    [ $got -eq "$status" ] || fail "exit $got, not $status: $*"
    [ "$(wc -l <"$work/refused.log")" -eq 1 ] || fail "not one sentence: $*"
    file_has "$work/refused.log" "$text" || fail "no '$text': $*"
}

# verify [OPTION…] NAME: openssl's verdict.
verify() {
    eval "name=\${$#}"
    # shellcheck disable=SC2154
    openssl verify -x509_strict -CAfile "$dir/ca.pem" "$@" >"$work/verify.log" 2>&1
}

refused 1 'kvrail certificates init' -- $certificates issue "$work" decode d0
$certificates init "$dir" --fleet prod --days 100 >/dev/null || fail "init"
$certificates issue "$dir" scheduler s --host s.example --host 10.0.0.5 >/dev/null || fail "issue s"
$certificates issue "$dir" prefill p0 decode d0 --tenant red --tenant blue >/dev/null || fail "issue p0 d0"
$certificates issue "$dir" client me --days 1 --age 72h >/dev/null || fail "issue me"
[ "$(stat -c %a "$dir" "$dir/ca-key.pem" "$dir/p0-key.pem" | tr '\n' ' ')" = "700 600 600 " ] ||
    fail "the keys are open to others"

verify -purpose sslserver -verify_ip 10.0.0.5 "$dir/s.pem" || fail "s: $(cat "$work/verify.log")"
verify -purpose sslserver -verify_hostname s.example "$dir/s.pem" || fail "s by name"
not verify -purpose sslserver -verify_hostname t.example "$dir/s.pem" || fail "s has a wrong name"
for purpose in sslserver sslclient; do
    verify -purpose $purpose "$dir/p0.pem" || fail "p0 as $purpose"
    verify -purpose $purpose "$dir/d0.pem" || fail "d0 as $purpose"
done
not verify -purpose sslclient "$dir/me.pem" || fail "me has expired"
file_has "$work/verify.log" expired || fail "me: $(cat "$work/verify.log")"
openssl x509 -in "$dir/p0.pem" -noout -ext subjectAltName | grep -q URI:kvrail://prod/prefill/p0 ||
    fail "p0's identity"
[ "$(openssl pkey -in "$dir/p0-key.pem" -pubout)" = "$(openssl x509 -in "$dir/p0.pem" -noout -pubkey)" ] ||
    fail "p0's key is not that of its certificate"

# What each says.
$certificates show "$dir/s.pem" >"$work/show.log" || fail "show s"
for text in kvrail://prod/scheduler/s s.example 10.0.0.5 ' days left' 'CN=CA of prod' \
    "$(openssl x509 -in "$dir/s.pem" -noout -fingerprint -sha256 | cut -d= -f2)"; do
    file_has "$work/show.log" "$text" || fail "show does not say '$text'"
done
$certificates show "$dir/p0.pem" | grep -q '^tenant  *blue$' || fail "show says no tenant"
! $certificates show "$dir/me.pem" >"$work/show.log" || fail "an expired one is fine"
file_has "$work/show.log" EXPIRED || fail "show does not say EXPIRED"
refused 2 'no certificate' -- $certificates show "$dir/ca-key.pem"
refused 1 'no file' -- $certificates show "$dir/nothing.pem"

# Revocation: earlier entries stay, the number rises.
$certificates revoke "$dir" p0 >/dev/null || fail "revoke p0"
$certificates revoke "$dir" d0 | grep -q 'list 2' || fail "revoke d0"
$certificates revoke "$dir" d0 | grep -q 'was on list 2 already' || fail "revoke d0 again"
for name in p0 d0; do
    not verify -crl_check -CRLfile "$dir/crl.pem" "$dir/$name.pem" || fail "$name is not revoked"
    file_has "$work/verify.log" 'certificate revoked' || fail "$name: $(cat "$work/verify.log")"
done
verify -crl_check -CRLfile "$dir/crl.pem" "$dir/s.pem" || fail "s is revoked"
refused 1 "to 'p9'" -- $certificates revoke "$dir" p9

# Nothing is overwritten, and nothing is left half.
before=$(cat "$dir"/*.pem | sha256sum)
refused 1 --force -- $certificates init "$dir"
refused 1 --force -- $certificates issue "$dir" prefill p0
refused 2 "'worker'" -- $certificates issue "$dir" worker w0
refused 2 'lacks its name' -- $certificates issue "$dir" prefill p1 decode
refused 2 "'worker'" -- $certificates issue "$dir" prefill p1 worker w0
refused 2 "'../p0'" -- $certificates issue "$dir" prefill ../p0
refused 2 'another file' -- $certificates issue "$dir" prefill ca
refused 2 "'10.0.0.5:9470'" -- $certificates issue "$dir" scheduler t --host 10.0.0.5:9470
refused 2 --host -- $certificates issue "$dir" scheduler t
refused 2 --tenant -- $certificates issue "$dir" prefill p1 --tenant 'a b'
refused 2 --days -- $certificates issue "$dir" prefill p1 --days 0
refused 2 --fleet -- $certificates init "$work/other" --fleet a/b
[ "$(cat "$dir"/*.pem | sha256sum)" = "$before" ] || fail "a refusal changed a file"
[ ! -e "$work/other" ] || fail "a refusal made a folder"
$certificates issue "$dir" prefill p0 --force >/dev/null || fail "issue --force"
verify -crl_check -CRLfile "$dir/crl.pem" "$dir/p0.pem" || fail "the new p0 is revoked"
chmod 0755 "$dir"
refused 2 'chmod 0700' -- $certificates issue "$dir" prefill p1
chmod 0700 "$dir"
$certificates init "$dir" --force >/dev/null || fail "init --force"
not verify "$dir/p0.pem" || fail "the old CA's certificate is believed"
[ ! -e "$dir/crl.pem" ] || fail "the old CA's list is left"

# Side by side, none is lost.
$certificates init "$work/many" >/dev/null
pids=
for i in 1 2 3 4 5 6 7 8; do
    $certificates issue "$work/many" client "c$i" >/dev/null &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid" || fail "a certificate beside others failed"
done
[ "$(wc -l <"$work/many/issued.txt")" -eq 8 ] || fail "issued.txt lacks some"
echo "e2e.certificates: passed"
