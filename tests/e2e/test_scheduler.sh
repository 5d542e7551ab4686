#!/bin/sh
# Goal: every endpoint of kvrail-scheduler answers good and bad input in the way it promises, garbage
# disturbs no client, and starts and stops end with the documented status.
# Method: the program, a small fleet that plays to it (the argument: ui.generate), curl, and where it
# can be had promtool.
set -u

bin=${KVRAIL_BIN_DIR:?}
tests=$(cd "$(dirname "$0")/.." && pwd)
generate=${1:?usage: test_scheduler.sh UI_GENERATE}
command -v curl >/dev/null || { echo "scheduler: skipped, there is no curl"; exit 77; }
work=$(mktemp -d /tmp/kvrail-scheduler-XXXXXX)
passed=0 failed=0 skipped=0
scheduler=

end() {
    [ -z "$scheduler" ] || kill -9 "$scheduler" 2>/dev/null
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); echo "not ok: $*"; }
skip() { skipped=$((skipped + 1)); echo "skipped: $*"; }

# start [option…]: sets $scheduler and $base
start() {
    rm -f "$work/port"
    "$bin/kvrail-scheduler" --insecure --listen 127.0.0.1:0 --port-file "$work/port" --state-dir "$work/state" \
        "$@" 2>>"$work/log" &
    scheduler=$!
    tries=0
    until [ -s "$work/port" ]; do
        tries=$((tries + 1))
        [ $tries -lt 1200 ] || { echo "the scheduler does not start:"; cat "$work/log"; exit 1; }
        sleep 0.05
    done
    address=127.0.0.1:$(cat "$work/port")
    base=http://$address
}

# stop: SIGTERM; the exit status must be 0
stop() {
    kill -TERM "$scheduler"
    wait "$scheduler"
    status=$?
    scheduler=
    if [ $status -eq 0 ]; then pass; else fail "SIGTERM ended with status $status"; fi
}

# expect STATUS TEXT curl-argument…: the answer has that status and somewhere that text
expect() {
    want=$1 text=$2
    shift 2
    got=$(curl -s -m 20 -o "$work/body" -w '%{http_code}' "$@")
    if [ "$got" != "$want" ]; then
        fail "$*: status $got, not $want: $(head -c 200 "$work/body")"
    elif ! grep -qF -- "$text" "$work/body"; then
        fail "$*: no '$text' in: $(head -c 300 "$work/body")"
    else
        pass
    fi
}

# header TEXT curl-argument…: some header of the answer has that text
header() {
    text=$1
    shift
    if curl -s -m 20 -o /dev/null -D - "$@" | grep -qiF -- "$text"; then
        pass
    else
        fail "$*: no header '$text'"
    fi
}

# ends STATUS TEXT option…: the program ends at once, with that status and sentence
ends() {
    want=$1 text=$2
    shift 2
    timeout 20 "$bin/kvrail-scheduler" "$@" >"$work/out" 2>&1
    got=$?
    if [ $got -eq "$want" ] && grep -qF -- "$text" "$work/out"; then
        pass
    else
        fail "$*: status $got, not $want, or no '$text' in: $(head -3 "$work/out")"
    fi
}

check_options() {
    ends 0 "--state-dir" --help
    ends 0 "kvrail-scheduler" --version
    ends 2 "nonsense" --nonsense
    ends 2 "listen" --insecure --listen nowhere
    ends 2 "--insecure" --listen 127.0.0.1:0
    ends 2 "--database-bytes" --insecure --database postgresql://nowhere/kvrail --database-bytes 1G
    ends 1 "--state-dir" --insecure --listen 127.0.0.1:0 --state-dir /proc/nowhere
    ends 1 "--web-root" --insecure --listen 127.0.0.1:0 --state-dir "$work/second" --web-root "$work/nowhere"
    ends 1 "cannot listen" --insecure --listen "$address" --state-dir "$work/second"
}

check_empty() {
    expect 200 '"status":"ok"' "$base/healthz"
    expect 200 '"problems":[]' "$base/readyz"
    expect 200 'process_open_fds' "$base/metrics"
    expect 200 '"transfers":[]' "$base/api/v1/transfers"
    expect 200 '"agents":[]' "$base/api/v1/agents"
    expect 200 '"last_event":null' "$base/api/v1/summary"
    expect 200 'kvrail_transfers_ended_total{outcome="done",reason="ok"} 0' "$base/metrics"
}

check_page() {
    expect 200 '<title>kvrail</title>' "$base/"
    script=$(curl -s "$base/" | sed -n 's|.*src="\(/app-[A-Z0-9]*\.js\)".*|\1|p')
    style=$(curl -s "$base/" | sed -n 's|.*href="\(/app-[A-Z0-9]*\.css\)".*|\1|p')
    expect 200 '/api/v1/stream' "$base$script"
    expect 200 'color-scheme' "$base$style"
    expect 200 'MIT' "$base/LICENSES.txt"
    header "Cache-Control: public, max-age=31536000, immutable" "$base$script"
    header "Cache-Control: no-cache" "$base/"
    expect 404 '"code":"not_found"' "$base/app-00000000.js"
    header "Content-Security-Policy: default-src 'none'" "$base/"
    header "text/html" "$base/"
    etag=$(curl -s -o /dev/null -D - "$base$script" | tr -d '\r' | sed -n 's/^ETag: //p')
    got=$(curl -s -o /dev/null -w '%{http_code}' -H "If-None-Match: $etag" "$base$script")
    if [ "$got" = 304 ]; then pass; else fail "an unchanged file was answered $got"; fi
}

check_bad_requests() {
    expect 404 '"code":"not_found"' "$base/nowhere"
    expect 404 '"code":"not_found"' "$base/../etc/passwd" --path-as-is
    expect 404 'not_found' "$base/api/v1/transfers/ffffffffffffffff"
    expect 404 '"type":"about:blank","title":"Not Found","status":404,"detail":"' "$base/api/v1/transfers/ffffffffffffffff"
    header 'Content-Type: application/problem+json' "$base/api/v1/transfers/ffffffffffffffff"
    expect 400 '16 hexadecimal' "$base/api/v1/transfers/xyz"
    expect 400 'limit=0' "$base/api/v1/transfers?limit=0"
    expect 400 'limit=501' "$base/api/v1/transfers?limit=501"
    expect 400 'limit=1e3' "$base/api/v1/transfers?limit=1e3"
    expect 400 'no state' "$base/api/v1/transfers?state=sleeping"
    expect 400 'no state' "$base/api/v1/transfers?state"
    expect 400 "beginning of a request's id" "$base/api/v1/transfers?request="
    expect 200 '"transfers":[]' "$base/api/v1/transfers?request=a&state=live"
    expect 400 'a second one' "$base/api/v1/transfers?request=a&request=b"
    expect 400 'is no tenant' "$base/api/v1/transfers?tenant="
    expect 400 'is no tenant' "$base/api/v1/transfers?tenant=a/b"
    expect 400 'a second one' "$base/api/v1/transfers?tenant=red&tenant=blue"
    expect 400 'after=x' "$base/api/v1/transfers?after=x"
    expect 400 'colour' "$base/api/v1/transfers?colour=red"
    expect 400 'colour' "$base/api/v1/agents?colour=red"
    expect 400 '"parameter":"from"' "$base/api/v1/transfers?from=yesterday"
    expect 400 'needs agent=NAME' "$base/api/v1/transfers?rail=0"
    expect 400 'too many' "$base/api/v1/transfers?$(printf 'a=1&%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18)"
    expect 405 'method_not_allowed' -X DELETE "$base/api/v1/transfers"
    expect 405 'method_not_allowed' -d x "$base/metrics"
    expect 405 'method_not_allowed' "$base/ingest/v1/events"
    header 'Allow: GET' -X PUT "$base/"
    requests=$base/api/v1/requests
    expect 404 'no such request is known' -X POST "$requests/x/abandon"
    expect 404 'no such request is known' -X POST "$requests/x/renew?lease_ms=1000&attempt=1"
    expect 404 'orders are posted to' -X POST "$requests/x/explode"
    expect 404 'orders are posted to' -X POST "$requests/abandon"
    expect 404 'orders are posted to' -X POST "$requests/$(printf '%0200d' 0)/abandon"
    expect 400 'renew needs lease_ms' -X POST "$requests/x/renew"
    expect 400 'lease_ms=0' -X POST "$requests/x/renew?lease_ms=0"
    expect 400 'lease_ms' -X POST "$requests/x/abandon?lease_ms=5"
    expect 400 'attempt=-1' -X POST "$requests/x/abandon?attempt=-1"
    expect 403 'another site' -H 'Origin: http://127.0.0.1' -X POST "$requests/x/abandon"
    expect 421 '--host NAME' -H 'Host: evil.example' "$base/api/v1/agents"
    expect 409 'no tokens' -X POST "$base/api/v1/session"
    expect 405 'GET, POST and DELETE' -X PUT "$base/api/v1/session"
    expect 200 '"via":"open"' "$base/api/v1/session"
    expect 200 '"audit":[' "$base/api/v1/audit"
    header 'Allow: GET, HEAD, POST, DELETE' -X PUT "$base/api/v1/session"
    expect 405 'orders are posted here' "$requests/x/abandon"
    header 'Allow: POST' "$requests/x/abandon"
    expect 415 'application/x-protobuf' -d x "$base/ingest/v1/events"
    type='Content-Type: application/x-protobuf'
    expect 400 'no report' -H "$type" -d garbage "$base/ingest/v1/events"
    expect 400 'agent' -H "$type" -X POST "$base/ingest/v1/events"
    dd if=/dev/zero of="$work/large" bs=1M count=5 2>/dev/null
    expect 413 'too_large' -H "$type" -H 'Expect: 100-continue' --data-binary "@$work/large" "$base/ingest/v1/events"
    curl -s -m 20 -o /dev/null -H "$type" -H 'Transfer-Encoding: chunked' -H 'Expect:' \
        --data-binary "@$work/large" "$base/ingest/v1/events"
    expect 200 '"status":"ok"' "$base/healthz"
}

# Random bytes on many connections, some left open half-way.
check_garbage() {
    count=0
    while [ $count -lt 30 ]; do
        count=$((count + 1))
        head -c $((count * 97)) /dev/urandom | timeout 5 curl -s -m 2 -o /dev/null "telnet://$address" 2>/dev/null
        printf 'GET /healthz HTTP/1.1\r\nHost' | timeout 5 curl -s -m 0.1 -o /dev/null "telnet://$address" 2>/dev/null
    done
    expect 200 '"status":"ok"' "$base/healthz"
    if kill -0 "$scheduler" 2>/dev/null; then pass; else fail "garbage ended the scheduler"; fi
}

# lacks TEXT: the last answer has it not.
lacks() {
    if grep -qF -- "$1" "$work/body"; then fail "the answer has $1"; else pass; fi
}

check_fleet() {
    "$generate" "$address" 4 3 >"$work/generate" 2>&1 || fail "the fleet: $(cat "$work/generate")"
    expect 200 '"name":"prefill-0"' "$base/api/v1/agents"
    expect 200 '"state":"stopped"' "$base/api/v1/agents"
    expect 200 '"p50_seconds":0.' "$base/api/v1/summary"
    expect 200 '"reason":"peer_lost"' "$base/api/v1/summary"
    expect 200 '"state":"done"' "$base/api/v1/transfers?state=done&limit=5"
    expect 200 '"state":"cancelled"' "$base/api/v1/transfers?state=cancelled"
    expect 200 '"transfers":' "$base/api/v1/transfers?state=live"
    expect 200 '"transfers":' "$base/api/v1/transfers?state=first_post"
    expect 200 '"next":"' "$base/api/v1/transfers?limit=2"
    next=$(sed -n 's/.*"next":"\([0-9]*\)".*/\1/p' "$work/body")
    first=$(sed -n 's/^{"transfers":\[{"id":"\([0-9a-f]*\)".*/\1/p' "$work/body")
    expect 200 '"id"' "$base/api/v1/transfers?limit=2&after=$next"
    if [ -n "$first" ] && ! grep -qF "$first" "$work/body"; then pass; else fail "paging repeats $first"; fi
    expect 200 '"events":[{' "$base/api/v1/transfers/$first"
    expect 200 '"spans":[' "$base/api/v1/transfers/$first/timeline"
    expect 200 '"events":[{' "$base/api/v1/transfers/$first"
    request=$(sed -n 's/.*"request":"\([^"]*\)".*/\1/p' "$work/body")
    expect 200 "$first" "$base/api/v1/transfers?request=$request"
    expect 200 "\"request\":\"$request\"" "$base/api/v1/transfers?limit=500&request=${request%?}"
    expect 200 '"transfers":[]' "$base/api/v1/transfers?request=nobody-asked"
    expect 200 '"transfers":[]' "$base/api/v1/transfers?request=%25"
    expect 200 '"tenant":"blue"' "$base/api/v1/transfers?tenant=blue&limit=500"
    lacks '"tenant":"red"'
    expect 200 '"tenant":"red"' "$base/api/v1/transfers?tenant=red&state=done"
    lacks '"tenant":"blue"'
    lacks '"state":"failed"'
    expect 200 '"transfers":[]' "$base/api/v1/transfers?tenant=nobody"
    expect 200 '"code":"peer_lost","scope":"peer"' "$base/api/v1/errors"
    expect 200 '"reason":"peer_lost"' "$base/api/v1/transfers?reason=peer_lost"
    lacks '"state":"done"'
    expect 200 '"agent":"prefill-1"' "$base/api/v1/transfers?agent=prefill-1&limit=2"
    next=$(sed -n 's/.*"next":"\([0-9-]*\)".*/\1/p' "$work/body")
    first=$(sed -n 's/^{"transfers":\[{"id":"\([0-9a-f]*\)".*/\1/p' "$work/body")
    expect 200 '"agent":"prefill-1"' "$base/api/v1/transfers?agent=prefill-1&limit=2&after=$next"
    lacks "$first"
    expect 200 '"agent":"prefill-1"' "$base/api/v1/transfers?agent=prefill-1&rail=rdmap80s0"
    expect 200 '"transfers":[]' "$base/api/v1/transfers?until=2001-01-01T00:00:00Z"
    expect 200 '"id"' "$base/api/v1/transfers?from=2001-01-01T00:00:00Z&state=done"
}

# Every answer is as /api/v1/openapi.json says. {id} stands for the newest transfer.
check_document() {
    command -v python3 >/dev/null || { skip "the document of the API: there is no python3"; return; }
    expect 200 '"openapi": "3.1.0"' "$base/api/v1/openapi.json"
    cp "$work/body" "$work/openapi.json"
    header 'ETag: "' "$base/api/v1/openapi.json"
    expect 200 '"id"' "$base/api/v1/transfers?limit=1&reason=rail_failed"
    id=$(sed -n 's/^{"transfers":\[{"id":"\([0-9a-f]*\)".*/\1/p' "$work/body")
    set --
    for question in summary agents 'transfers?limit=20' 'transfers?agent=prefill-1&limit=2' 'transfers/{id}' \
        'transfers/{id}/timeline' errors 'pairs?tokens=1000' rails/matrix audit session \
        'transfers?limit=0' transfers/0 'errors?from=x' pairs 'rails/matrix?trouble=no' 'audit?limit=0'; do
        file=$work/answer-$#
        status=$(curl -s -m 20 -o "$file" -w '%{http_code}' \
            "$base/api/v1/$(printf %s "$question" | sed "s/{id}/$id/")")
        set -- "$@" "/api/v1/$(printf %s "${question%%\?*}" | sed 's|transfers/0|transfers/{id}|')" "$status" "$file"
    done
    if python3 "$tests/support/openapi.py" "$work/openapi.json" "$@" >"$work/checked" 2>&1; then
        pass
    else
        fail "the document: $(cat "$work/checked")"
    fi
}

check_metrics() {
    expect 200 'kvrail_build_info{version=' "$base/metrics"
    expect 200 'kvrail_rail_up{agent="decode-0",rail="2",provider="efa"} ' "$base/metrics"
    expect 200 'kvrail_rail_up{agent="prefill-1",rail="2",group="1",provider="efa"} 0' "$base/metrics"
    expect 200 'kvrail_agent_up{agent="prefill-0",role="prefill"} ' "$base/metrics"
    expect 200 'kvrail_rail_info{agent="prefill-1",rail="2",group="1",card="rdmap81s0",provider="efa"' "$base/metrics"
    expect 200 'kvrail_rail_speed_bytes_per_second{agent="decode-0",rail="2",provider="efa"} 12500000000' "$base/metrics"
    expect 200 'kvrail_group_thread_cpu_seconds_total{agent="prefill-1",group="1"} ' "$base/metrics"
    lacks 'kvrail_rail_thread_'
    expect 200 '# EOF' -H 'Accept: application/openmetrics-text' "$base/metrics"
    header 'Content-Type: application/openmetrics-text; version=1.0.0' -H 'Accept: application/openmetrics-text' "$base/metrics"
    header 'Content-Type: text/plain; version=0.0.4' "$base/metrics"
    header 'Content-Encoding: gzip' -H 'Accept-Encoding: gzip' "$base/metrics"
    expect 200 'kvrail_ready 1' --compressed "$base/metrics"
    header 'Content-Encoding: gzip' -H 'Accept-Encoding: gzip' "$base/api/v1/agents"
    # They are made anew each second.
    tries=0 got=200
    while [ $tries -lt 50 ] && [ "$got" != 304 ]; do
        tries=$((tries + 1))
        etag=$(curl -s -o /dev/null -D - "$base/api/v1/agents" | tr -d '\r' | sed -n 's/^ETag: //p')
        got=$(curl -s -o /dev/null -w '%{http_code}' -H "If-None-Match: $etag" "$base/api/v1/agents")
    done
    if [ "$got" = 304 ]; then pass; else fail "agents that have not changed were answered $got"; fi
    expect 200 '"name":"rdmap81s0","group":1,' "$base/api/v1/agents"
    expect 200 '"peers_warm":2' "$base/api/v1/agents"
    expect 200 '"peers_warm":null' "$base/api/v1/agents"
    expect 200 '"insecure":true' "$base/api/v1/agents"
    expect 200 '"insecure":false' "$base/api/v1/agents"
    promtool=$(command -v promtool || echo "${KVRAIL_PROMTOOL:-}")
    if [ -z "$promtool" ] && command -v apt-get >/dev/null; then
        # Without its service: the package is unpacked, not installed.
        (cd "$work" && timeout 100 apt-get -qq download prometheus >/dev/null 2>&1 &&
            dpkg -x prometheus_*.deb unpacked 2>/dev/null)
        [ ! -x "$work/unpacked/usr/bin/promtool" ] || promtool=$work/unpacked/usr/bin/promtool
    fi
    if [ -z "$promtool" ]; then
        skip "promtool cannot be had"
    elif curl -s "$base/metrics" | "$promtool" check metrics >"$work/promtool" 2>&1; then
        pass
    else
        fail "promtool: $(head -5 "$work/promtool")"
    fi
}

# What it knew, it knows after a restart; agents are awaited until they could have reported.
check_restart() {
    known=$(curl -s "$base/api/v1/summary" | sed -n 's/.*"done":\([0-9]*\).*/\1/p')
    stop
    start
    again=$(curl -s "$base/api/v1/summary" | sed -n 's/.*"done":\([0-9]*\).*/\1/p')
    if [ -n "$known" ] && [ "$known" = "$again" ]; then pass; else fail "$known done before, $again after"; fi
    expect 200 '"name":"decode-1"' "$base/api/v1/agents"
    lacks '"state":"lost"'
}

# With more in use than --database-bytes ended transfers go, and agents stay. Where that is not enough, a
# problem says so, and the scheduler is ready all the same.
check_bound() {
    stop
    cp -r "$work/state" "$work/kept"
    start --database-bytes 1k
    tries=0
    until curl -s -m 20 "$base/healthz" | grep -q '"problem":"database_bound"'; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { fail "--database-bytes removes nothing"; break; }
        sleep 0.1
    done
    expect 200 'kvrail_database_bound_bytes 1024' "$base/metrics"
    if grep -q '^kvrail_rows_removed_total{reason="size"} [1-9]' "$work/body"; then pass; else fail "no row counts as removed"; fi
    expect 200 '"transfers":[]' "$base/api/v1/transfers?state=done"
    expect 200 '"name":"decode-1"' "$base/api/v1/agents"
    expect 200 '"status":"degraded"' "$base/healthz"
    expect 200 '"problem":"database_bound"' "$base/readyz"
    expect 200 'kvrail_ready 1' "$base/metrics"
    stop
    rm -r "$work/state"
    mv "$work/kept" "$work/state"
    start
}

# asks STATUS TEXT kvrail-argument…: the command ends so, and says that
asks() {
    want=$1 text=$2
    shift 2
    timeout 20 "$bin/kvrail" "$@" >"$work/out" 2>&1
    got=$?
    if [ $got -eq "$want" ] && grep -qF -- "$text" "$work/out"; then
        pass
    else
        fail "kvrail $*: status $got, not $want, or no '$text' in: $(head -3 "$work/out")"
    fi
}

# Tokens: with one kvrail and curl read, or act, and without one they do not.
check_tokens() {
    asks 2 'the right is' token ops write
    asks 2 'is no name' token 'o p s' act
    asks 1 'cannot be written' token ops act --append /proc/nowhere/tokens
    "$bin/kvrail" token ops act --append "$work/tokens" >"$work/act"
    "$bin/kvrail" token dashboard read >"$work/read" 2>"$work/line"
    tail -n 1 "$work/line" >>"$work/tokens"
    chmod 666 "$work/tokens"
    ends 2 'chmod go-w' --insecure --listen 127.0.0.1:0 --state-dir "$work/second" --token-file "$work/tokens"
    chmod 640 "$work/tokens"
    ends 2 '--open is' --insecure --listen 127.0.0.1:0 --state-dir "$work/second" --open everything
    ends 1 'cannot be read' --insecure --listen 127.0.0.1:0 --state-dir "$work/second" --token-file "$work/none"
    echo 'ops act secret' >"$work/bad"
    ends 2 'line 1' --insecure --listen 127.0.0.1:0 --state-dir "$work/second" --token-file "$work/bad"
    stop
    start --token-file "$work/tokens" --open health --host scheduler.example
    expect 200 '"status":"ok"' "$base/healthz"
    expect 200 '"status":"ok"' -H 'Host: scheduler.example:9470' "$base/healthz"
    expect 401 'a token is needed' "$base/metrics"
    expect 200 'kvrail_uptime_seconds' -H "Authorization: Bearer $(cat "$work/read")" "$base/metrics"
    asks 1 'a token is needed' status --scheduler "$address"
    asks 0 'What is odd' status --scheduler "http://$address/" --token-file "$work/read"
    asks 4 'a token is needed' why --scheduler "$address" x
    asks 1 'may read and not act' abandon --scheduler "$address" --token-file "$work/read" x
    asks 1 'no such request' abandon --scheduler "$address" --token-file "$work/act" x
    asks 2 'holds no token' status --scheduler "$address" --token-file "$work/tokens"
    asks 2 'no user and no token' status --scheduler "http://me@$address"
    asks 2 'is no HOST[:PORT]' status --scheduler "$base/api"
    KVRAIL_TOKEN_FILE=$work/read asks 0 'What is odd' status --scheduler "$address"
    expect 200 '"action":"abandon","actor":"ops","via":"token","object":"x"' \
        -H "Authorization: Bearer $(cat "$work/read")" "$base/api/v1/audit"
    if grep -qF "$(cat "$work/act")" "$work/log"; then fail "a token is in the log"; else pass; fi
    if grep -q 'audit: abandon x by ops, token from 127.0.0.1: not_found' "$work/log"; then
        pass
    else
        fail "the log has no line of the audit"
    fi
    # One token goes. The file is followed without a signal; a signal reads it at once.
    sed -i '/^dashboard /d' "$work/tokens"
    tries=0
    until grep -q 'is read again: 1 tokens' "$work/log"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { fail "the token file is not followed"; break; }
        sleep 0.05
    done
    asks 1 'this token is not known here' status --scheduler "$address" --token-file "$work/read"
    kill -HUP "$scheduler"
    asks 0 'What is odd' status --scheduler "$address" --token-file "$work/act"
    stop
    start
}

# hold N: a client that keeps a connection, and says nothing.
hold() {
    curl -s -m 20 "telnet://$address" <"$work/slow" >/dev/null 2>&1 &
    eval "slow_$1=$!"
}

# Connections beyond a limit are refused, counted and logged, and the others are served.
check_connections() {
    stop
    start --connections-per-host 2
    mkfifo "$work/slow"
    # Two that say nothing hold a connection each, for as long as a request may take. One that came while an
    # earlier connection was not closed yet was refused: it comes again.
    for i in 1 2; do hold $i; done
    exec 3>"$work/slow"
    tries=0
    while curl -s -m 20 -o /dev/null "$base/healthz"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { fail "a third connection of one host is taken"; break; }
        kill -0 "$slow_1" 2>/dev/null || hold 1
        kill -0 "$slow_2" 2>/dev/null || hold 2
        sleep 0.05
    done
    kill "$slow_1" 2>/dev/null
    exec 3>&-
    wait "$slow_1" "$slow_2" 2>/dev/null
    tries=0
    until curl -s -m 20 "$base/metrics" >"$work/metrics"; do
        tries=$((tries + 1))
        [ $tries -lt 200 ] || { fail "no connection is taken after the others have gone"; break; }
        sleep 0.05
    done
    if grep -q '^kvrail_http_connections_refused_total{limit="host"} [1-9]' "$work/metrics"; then
        pass
    else
        fail "no connection was counted: $(grep connections "$work/metrics")"
    fi
    if grep -q 'refused [0-9]* connections*, the last from 127.0.0.1:[0-9]*: --connections-per-host is 2' "$work/log"; then
        pass
    else
        fail "the log does not say that connections were refused"
    fi
    asks 1 'it refused connections within the last minute' status --scheduler "$address" --check
    ends 2 '--connections-max is' --insecure --listen 127.0.0.1:0 --state-dir "$work/second" --connections-max 0
    stop
    start
}

# Idle, without a client: next to no processor time, once all work is done.
check_idle() {
    ticks=4 times=0
    while [ $ticks -gt 3 ] && [ $times -lt 4 ]; do
        times=$((times + 1))
        before=$(cut -d' ' -f14,15 "/proc/$scheduler/stat")
        sleep 3
        after=$(cut -d' ' -f14,15 "/proc/$scheduler/stat")
        ticks=$((${after% *} + ${after#* } - ${before% *} - ${before#* }))
    done
    if [ $ticks -le 3 ]; then pass; else fail "idle for 3 s cost $ticks ticks"; fi
}

start
check_options
check_empty
check_page
check_bad_requests
check_garbage
check_fleet
check_document
check_metrics
check_restart
check_bound
check_tokens
check_connections
check_idle
stop
[ "$failed" -eq 0 ] || tail -5 "$work/log"
echo "scheduler: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
