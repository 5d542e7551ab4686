#!/bin/sh
# Goal: tests/demo.sh keeps its promises: its last line, its exit status, its figures, and nothing left
# behind. Method: the programs of this build; every ending that it can have.
set -eu
[ -z "${KVRAIL_SANITIZE:-}" ] || { echo "its pools are too large for a sanitizer's shadow" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/tmp"
export TMPDIR="$work/tmp" KVRAIL_BIN_DIR
demo=$KVRAIL_ROOT_DIR/tests/demo.sh
verdict='demo: 10 transfers, 10 verified, 0 failed, 0 bytes wrong, [0-9]*\.[0-9][0-9] GB/s'

fail() {
    echo "FAILED: $*" >&2
    cat "$work/out" >&2
    exit 1
}

# ends STATUS ARGUMENT…: dash runs it, it ends so, and then nothing of it is left.
ends() {
    wanted=$1
    shift
    status=0
    sh "$demo" "$@" >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" = "$wanted" ] || fail "demo.sh $* ended in $status"
    nothing_left
}

nothing_left() {
    [ -z "$(ls -A "$TMPDIR")" ] || fail "it left files: $(ls -A "$TMPDIR")"
    for each in /proc/[0-9]*/cmdline; do
        ! tr '\0' ' ' <"$each" 2>/dev/null | grep -q "$TMPDIR" || fail "it left a process: $each"
    done
}

last_line() {
    tail -n 1 "$work/out" | grep -qx "$1" || fail "its last line is not '$1'"
}

ends 0 --requests 10 --json "$work/figures.json"
last_line "$verdict"
grep -q '^  "verified": 10,' "$work/figures.json" || fail "--json has no figures"
grep -q '^  "provider": "tcp",' "$work/figures.json" || fail "the figures do not name the provider"
ends 0 --requests 10 --provider local
last_line "$verdict"
"$KVRAIL_BIN_DIR/kvrail" trace synth --requests 3 --output "$work/trace.jsonl"
ends 1 --trace "$work/trace.jsonl" --corrupt page
last_line 'demo: 3 transfers, 2 verified, 1 failed, [1-9].*'

for arguments in --what --requests "--requests 0" "--provider verbs" "--provider shm" "--corrupt what" \
    "--trace /nowhere" "--json /nowhere/figures.json" "--engine what" "--engine vllm --corrupt page"; do
    # shellcheck disable=SC2086 # an option and its value
    ends 2 $arguments
    [ "$(wc -l <"$work/out")" = 1 ] || fail "$arguments is not refused in one line"
done

# A signal ends it in mid replay, and at once.
sh "$demo" --requests 100000 >"$work/out" 2>&1 </dev/null &
pid=$!
tries=0
until grep -q 'pools of' "$work/out"; do
    tries=$((tries + 1))
    [ $tries -le 300 ] || fail "it did not begin to replay in 30 s"
    sleep 0.1
done
kill -TERM $pid
status=0
wait $pid || status=$?
[ "$status" = 143 ] || fail "a signal ended it in $status"
nothing_left
grep -q '^demo: ' "$work/out" && fail "a signal did not end it"

# --stay leaves it running, and says how to end that.
status=0
sh "$demo" --requests 10 --stay >"$work/out" 2>&1 </dev/null || status=$?
[ "$status" = 0 ] || fail "--stay ended in $status"
last_line "$verdict"
address=$(sed -n 's,^The dashboard: \(https://[^ ]*\) .*,\1,p' "$work/out")
ca=$(sed -n 's,.*its CA: \([^;]*\);.*,\1,p' "$work/out")
token=$(sed -n 's,.*its token: \([^)]*\)).*,\1,p' "$work/out")
curl -s --cacert "$ca" -H "Authorization: Bearer $token" "${address}healthz" | grep -qF '{"status":"ok",' ||
    fail "no dashboard at '$address'"
[ "$(curl -s -o "$work/refused" -w '%{http_code}' --cacert "$ca" "${address}api/v1/agents")" = 401 ] ||
    fail "the dashboard's data are open to all"
sh "$TMPDIR"/kvrail-demo.*/stop
nothing_left
