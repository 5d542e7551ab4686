#!/bin/sh
# Goal: a tenant's fetch meets only publishes of its own, though its engine knows the secret of another's, and
# the metric counts it. An engine acts only for tenants that its agent lets it act for. Quotas end publishes.
# Replays beside all that lose nothing. Options that the certificate does not cover do not start. Method: a
# prefill-agent with a certificate of red and blue, a decode-agent of each, the example engines, and replays of
# red all the while.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
secure=yes
need ../examples/example_prefill ../examples/example_decode
publish="$bin/../examples/example_prefill"
fetch="$bin/../examples/example_decode"

# ---- certificates: prefill-0 serves red and blue, decode-0 red, decode-blue blue

"$bin/kvrail" certificates init "$tls" >"$work/certificates.log"
issue() { "$bin/kvrail" certificates issue "$tls" "$@" >>"$work/certificates.log" || fail "issue $*"; }
issue scheduler scheduler client tests --host 127.0.0.1 --host localhost
issue prefill prefill-0 --host 127.0.0.1 --tenant red --tenant blue
issue decode decode-0 --host 127.0.0.1 --tenant red
issue decode decode-blue --host 127.0.0.1 --tenant blue

# ---- what cannot be does not start

# refused SENTENCE PROGRAM ARGUMENT…: exit status 2, with that sentence.
refused() {
    sentence=$1
    shift
    status=0
    "$@" --provider "$provider" >"$work/refused.log" 2>&1 || status=$?
    [ "$status" = 2 ] || fail "$* ended in $status"
    grep -qF -- "$sentence" "$work/refused.log" || fail "'$sentence' is not said"
}
decode() { # shellcheck disable=SC2046 # options
    name=$1
    shift
    timeout $((20 * patience)) "$bin/decode-agent" --name "$name" --engine-socket "$work/never.sock" $(credentials decode "$name") "$@"
}
refused "--tenant blue: --tls-certificate does not serve that tenant: issue one with it" decode decode-0 --tenant blue
refused "kvrail certificates issue --tenant blue" decode decode-0 --tenant red --tenant blue
refused "name them by --tenant" decode decode-0
refused "'a b': a tenant" decode decode-0 --tenant "'a b'"
refused "this host has no user 'nobody-has-it'" decode decode-0 --tenant red=user:nobody-has-it
refused "is neither user:NAME nor group:NAME" decode decode-0 --tenant red=root
refused "--tenant-fetches blue=1: no --tenant of this agent has that name" decode decode-0 --tenant red \
    --tenant-fetches blue=1
refused "--tenant-fetches red=0: the value must be" decode decode-0 --tenant red --tenant-fetches red=0

# ---- the agents, and replays of red, the first that its engines may act for

prefill_options="--tenant red --tenant blue --tenant-publishes blue=1 --tenant-bytes blue=64k --tenant-weight red=3"
decode_options="--tenant red"
start_all
# shellcheck disable=SC2046 # options
start blue "$bin/decode-agent" --name decode-blue $(credentials decode decode-blue) --tenant blue \
    --engine-socket "$work/blue.sock" --provider "$provider" --rail 127.0.0.1 --scheduler "$scheduler" \
    --state-dir "$work/blue" --deadline 3s
await blue "$work/blue.sock"
replays_beside 8

# of NAME AGENT [TENANT]: the value of a counter or gauge of that agent.
of() {
    metrics | sed -n "s/^kvrail_$1{agent=\"$2\"${3:+,tenant=\"$3\"}} //p"
}
is() {
    wanted=$1
    shift
    [ "$(of "$@")" = "$wanted" ]
}
soon() { wait_for 30 is "$@" || fail "$2 of $3 is $(shift && of "$@"), not $1"; }

# published LOG: sets $generation.
published() {
    wait_for 30 grep -qs '^generation' "$1" || fail "the source did not publish: $(cat "$1")"
    generation=$(sed -n 's/^generation //p' "$1")
}
fetch_as() {
    REQUEST_TENANT=$1 "$fetch" "$2" "$3" "$source_agent" "$generation" >"$work/fetched" 2>&1
}

# ---- a publish of red: blue's fetch knows its secret, and gets nothing

start red-source env REQUEST_TENANT=red "$publish" "$work/source.sock" of-red
published "$work/red-source.log"
! fetch_as blue "$work/blue.sock" of-red || fail "blue has red's pages: $(cat "$work/fetched")"
grep -qE '^(expired|failed): ' "$work/fetched" || fail "blue hears no end: $(cat "$work/fetched")"
! grep -qi 'tenant red\|of red' "$work/fetched" || fail "blue learns of red: $(cat "$work/fetched")"
soon 1 wants_of_other_tenants_total prefill-0

# ---- an engine cannot name a tenant that it may not act for, at either agent (the examples are one engine)

! fetch_as red "$work/blue.sock" of-red || fail "blue's agent fetches for red"
grep -q "may not act for the tenant 'red': this agent's --tenant lets it act for blue" "$work/fetched" ||
    fail "no sentence: $(cat "$work/fetched")"
soon 1 tenants_refused_total decode-blue

# ---- red's own fetch is served

fetch_as red "$work/target.sock" of-red || fail "red's fetch failed: $(cat "$work/fetched")"
grep -q '^0 bytes wrong' "$work/fetched" || fail "wrong bytes: $(cat "$work/fetched")"
wait_for 30 grep -q '^source_free: ok' "$work/red-source.log" || fail "the source: $(cat "$work/red-source.log")"

# ---- an operator sees the tenant, and blue's transfers without red's

# explained TENANT TRANSFER: kvrail why says that it was of this tenant.
explained() {
    tool why --scheduler "$scheduler" "$2" >"$work/why" || [ $? = 1 ] || return 1
    grep -qx "  of the tenant $1" "$work/why"
}
id_of() { sed -n 's/^{"transfers":\[{"id":"\([0-9a-f]*\)","request":"of-red".*/\1/p' "$work/listed"; }
listed() { ask_scheduler "/api/v1/transfers?tenant=$1&request=of-red" >"$work/listed" && grep -q '"request":"of-red"' "$work/listed"; }
wait_for 30 listed blue || fail "blue's fetch is not listed: $(cat "$work/listed")"
! grep -q '"tenant":"red"' "$work/listed" || fail "red is listed as blue's: $(cat "$work/listed")"
explained blue "$(id_of)" || fail "why does not name blue: $(cat "$work/why")"

# all_name TENANT TRANSFER: each of its events names this tenant.
all_name() {
    ask_scheduler "/api/v1/transfers/$2" | sed 's/.*"events":\[//' | tr '{' '\n' | grep '"sequence"' >"$work/events" ||
        return 1
    ! grep -vF "\"tenant\":\"$1\"" "$work/events" >"$work/others"
}
all_name blue "$(id_of)" || fail "events of blue's fetch do not name it: $(cat "$work/others")"
wait_for 30 listed red || fail "red's transfer is not listed: $(cat "$work/listed")"
! grep -q '"tenant":"\(blue\|default\)"' "$work/listed" || fail "others are listed as red's: $(cat "$work/listed")"
all_name red "$(id_of)" || fail "events of red's transfer do not name it: $(cat "$work/others")"
explained red "$(id_of)" || fail "why does not name red: $(cat "$work/why")"

! REQUEST_TENANT=green "$publish" "$work/source.sock" of-green >"$work/green" 2>&1 || fail "green is published"
grep -q 'not_authorized' "$work/green" || fail "no reason: $(cat "$work/green")"
soon 1 tenants_refused_total prefill-0

# ---- quotas: pages of blue beyond its bytes

start blue-source env REQUEST_TENANT=blue "$publish" "$work/source.sock" of-blue
wait_for 30 grep -q '^source_free: full' "$work/blue-source.log" ||
    fail "blue publishes beyond its bytes: $(cat "$work/blue-source.log")"
soon 1 tenant_bytes_refused_total prefill-0 blue
soon 65536 tenant_bytes_limit prefill-0 blue
soon 0 tenant_bytes prefill-0 blue
soon 3 tenant_weight prefill-0 red

# ---- nothing was lost

finish_replays_beside
[ "$(of tenant_posted_bytes_total prefill-0 red)" -gt 0 ] || fail "nothing is counted as posted for red"
is 0 tenant_posted_bytes_total prefill-0 blue || fail "blue has sent something"
tool status --scheduler "$scheduler" --all >"$work/status" || fail "status ended in $?"
grep -qE '^prefill-0 +blue +0 +1 ' "$work/status" || fail "status does not show blue: $(cat "$work/status")"
is 1 wants_of_other_tenants_total prefill-0 || fail "$(of wants_of_other_tenants_total prefill-0) were counted"
echo "tenants: blue got nothing of red"
