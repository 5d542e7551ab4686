#!/bin/sh
# Goal: a stranger that can dial a prefill-agent and knows the ids of requests gets none of their pages and
# learns nothing. The owner's target is served, a metric counts the refusal, and replays beside it lose nothing.
# No secret is where it does not belong. Method: a stock decode-agent of the stranger's fetches with another
# secret, beside the owner's. Then all that the programs have written or answer is searched.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need ../examples/example_prefill ../examples/example_decode
command -v curl >/dev/null || { echo "there is no curl" >&2; exit 77; }
publish="$bin/../examples/example_prefill"
fetch="$bin/../examples/example_decode"
prefill_options="--log-level debug"
decode_options="--log-level debug"
start_all
# shellcheck disable=SC2046 # options
start thief "$bin/decode-agent" --name thief $(credentials decode thief) --engine-socket "$work/thief.sock" --provider "$provider" \
    --rail 127.0.0.1 --scheduler "$scheduler" --state-dir "$work/thief" --deadline 2s --log-level debug
await thief "$work/thief.sock"
replays_beside 8

# steal REQUEST: what the stranger's engine gets; it guesses a secret.
steal() {
    REQUEST_SECRET=0123456789abcdef$(date +%N | md5sum | cut -c1-32)0123456789abcdef \
        "$fetch" "$work/thief.sock" "$1" "$source_agent" "$generation" >"$work/stolen-$1" 2>&1 &&
        fail "$1 was stolen: $(cat "$work/stolen-$1")"
    # Both agents have the deadline, and the first of them ends it.
    ! grep -vE "^(peer_up: ok|[a-z]+: (expired, $late|no_source, $never|$gone))" "$work/stolen-$1" >"$work/more" ||
        fail "the stranger hears more of $1: $(cat "$work/more")"
    grep -qE '^(expired|failed): ' "$work/stolen-$1" || fail "the stranger hears no end of $1"
}
# The reasons that a fetch of an unpublished request gets.
late='its deadline passed before its source published any of it'
never='no engine published this request, attempt and generation, with the secret and the tenant of this fetch, in time'
gone='engine_lost, the source engine ended'

published() {
    wait_for 30 grep -qs '^generation' "$1" || fail "the source did not publish: $(cat "$1")"
    generation=$(sed -n 's/^generation //p' "$1")
}

counted() { [ "$(metrics | sed -n 's/^kvrail_wants_unproven_total{.*prefill-0.*} //p')" = "$1" ]; }
reported() { ask_scheduler "/api/v1/transfers?limit=500&request=$1" | grep -q "\"state\":\"$2\""; }

# ---- the stranger first, and then the owner

start source "$publish" "$work/source.sock" owned
published "$work/source.log"
steal owned
steal unheard-of
wait_for 30 counted 1 || fail "the refusal is not counted: $(metrics | grep unproven)"
"$fetch" "$work/target.sock" owned "$source_agent" "$generation" >"$work/fetched" 2>&1 ||
    fail "the owner's fetch failed: $(cat "$work/fetched")"
grep -q '^0 bytes wrong' "$work/fetched" || fail "wrong bytes: $(cat "$work/fetched")"
wait_for 30 grep -q '^source_free: ok, [1-9]' "$work/source.log" || fail "the source: $(cat "$work/source.log")"
wait_for 30 reported owned done || fail "the scheduler does not know it"

# ---- how a request has ended is the owner's alone to know

steal owned
steal unheard-of

# ---- without a secret

(unset REQUEST_SECRET && "$fetch" "$work/target.sock" owned "$source_agent" "$generation") >"$work/none" 2>&1 &&
    fail "a fetch without a secret is taken"
grep -q 'the fetch has no secret' "$work/none" || fail "no sentence: $(cat "$work/none")"

finish_replays_beside

# ---- no secret anywhere

replay --requests 30 || fail "the replay ended in $?"
expect verified 30
wait_for 30 reported replay- done || fail "the scheduler does not know the replay"
none_live() { ask_scheduler '/api/v1/transfers?state=live' | grep -q '"transfers":\[\]'; }
wait_for 30 none_live || fail "the scheduler does not know how all have ended" # an opening goes when its target comes
mkdir "$work/answers"
for path in metrics api/v1/summary api/v1/agents 'api/v1/transfers?limit=500' 'api/v1/transfers?limit=40' \
    'api/v1/transfers?request=owned' 'api/v1/transfers?request=unheard-of' 'api/v1/transfers?request=held'; do
    ask_scheduler "/$path" -f -S >"$work/answers/$(echo "$path" | tr '/?' '__')" 2>"$work/curl.log" ||
        fail "no answer at /$path: curl ended in $?: $(cat "$work/curl.log")"
done
for id in $(grep -ho '"id": *"[0-9a-f]\{16\}"' "$work/answers"/api_v1_transfers_request=* \
    "$work/answers/api_v1_transfers_limit=40" | grep -o '[0-9a-f]\{16\}'); do
    ask_scheduler "/api/v1/transfers/$id" -f -S >>"$work/answers/each" 2>"$work/curl.log" ||
        fail "no answer of $id: curl ended in $?: $(cat "$work/curl.log")"
done
[ "$(wc -c <"$work/answers/each")" -gt 10000 ] || fail "the transfers have too few details to be searched"
tool why --scheduler "$scheduler" owned >"$work/answers/why" || [ $? = 1 ] || fail "kvrail why ended in $?"
tool status --scheduler "$scheduler" --all >"$work/answers/status"
owner=$REQUEST_SECRET
raw=$(printf %s "$owner" | sed 's/../\\x&/g')
looked=0
for file in $(find "$work" -type f ! -name 'stolen-*'); do
    looked=$((looked + 1))
    # As text of any case, as bytes, in base64. The replay draws new ones: anything that looks like one.
    ! grep -qaiF "$owner" "$file" || fail "$file has the secret as text"
    ! LC_ALL=C grep -qaP "$raw" "$file" || fail "$file has the secret as bytes"
    ! grep -qaF "$(printf "$raw" | base64 -w 0 | cut -c1-40)" "$file" || fail "$file has the secret in base64"
    ! grep -qaE '(^|[^0-9a-fA-F])[0-9a-fA-F]{64}([^0-9a-fA-F]|$)' "$file" || fail "$file has what may be a secret"
done
[ $looked -ge 12 ] || fail "only $looked files were searched"
grep -q '^<7>' "$work/prefill.log" || fail "the log has no debug lines"
echo "$looked files have no secret; $(wc -c <"$work/answers/each") bytes of transfers"
