#!/bin/sh
# Goal: the page, in a real browser, shows the fleet, the transfers and the failures. It opens a transfer from
# its address, pages back without a gap, says when there is nothing or no answer, and loads little at a time.
# Method: headless Chromium prints the page as it is after a few seconds of its own time; where
# something is clicked, a script runs in the page (drive.sh).
# With KVRAIL_SCREENSHOTS=DIR it also leaves pictures in both themes there.
set -u

bin=${KVRAIL_BIN_DIR:?}
generate=${1:?usage: page.sh UI_GENERATE}
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
[ -n "$browser" ] || { echo "page: skipped, there is no Chromium"; exit 77; }
command -v curl >/dev/null || { echo "page: skipped, there is no curl"; exit 77; }
work=$(mktemp -d /tmp/kvrail-page-XXXXXX)
passed=0 failed=0
scheduler= player= guarded=

end() {
    [ -z "$player" ] || kill "$player" 2>/dev/null
    [ -z "$scheduler" ] || kill "$scheduler" 2>/dev/null
    [ -z "$guarded" ] || kill "$guarded" 2>/dev/null
    wait
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

browse() {
    timeout 60 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --hide-scrollbars --user-data-dir="$work/profile" --window-size=1440,1400 \
        --virtual-time-budget=4500 "$@" 2>"$work/browser"
}

# shows TEXT: the last page has it
shows() {
    if grep -qF -- "$1" "$work/page"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "not ok: the page does not show '$1'"
        [ "$(wc -c <"$work/page")" -gt 1000 ] || cat "$work/page"
    fi
}

"$bin/kvrail-scheduler" --insecure --listen 127.0.0.1:0 --port-file "$work/port" --state-dir "$work/state" \
    2>"$work/log" &
scheduler=$!
tries=0
until [ -s "$work/port" ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || { echo "the scheduler does not start:"; cat "$work/log"; exit 1; }
    sleep 0.05
done
address=127.0.0.1:$(cat "$work/port")

browse --dump-dom "http://$address/" >"$work/page"
[ -s "$work/page" ] || { echo "page: skipped, Chromium does not run here"; exit 77; }
shows 'No agent has reported yet'
shows 'No transfer yet'
shows 'no event yet'

"$generate" "$address" 120 5 2>"$work/player" &
player=$!
tries=0
until curl -s "http://$address/api/v1/agents" | grep -q '"state":"down"' && curl -s "http://$address/api/v1/transfers?state=failed&limit=1" | grep -q '"id"' &&
    curl -s "http://$address/api/v1/summary" | grep -q '"reason":"peer_lost"'; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || { echo "page: nothing has failed in the fleet: $(cat "$work/player")"; exit 1; }
    sleep 0.1
done
browse --dump-dom "http://$address/" >"$work/page"
shows 'prefill-0'
shows 'decode-1'
shows '>down<'
shows 'Failures'
shows 'decode-1 gave no sign for 3.1 s'
shows 'prefill-0 → decode-0'
shows 'GB/s'
shows 'following'
shows 'insecure: agents prove no identity to it'
shows 'insecure: peers prove no identity'
shows '2 peers, warm'
shows '2 peers, 1 warm'
shows '2 peers<'
id=$(curl -s "http://$address/api/v1/transfers?state=failed&limit=1" |
    sed -n 's/^{"transfers":\[{"id":"\([0-9a-f]*\)".*/\1/p')
browse --dump-dom "http://$address/#state=failed&open=$id" >"$work/page"
shows "detail-$id"
shows 'class="timeline"'
shows 'Target said'
sh "$(dirname "$0")/drive.sh" "$browser" "http://$address/" "$(dirname "$0")/older.js" >"$work/page" 2>&1
shows 'older: 0 missing, 0 twice, 0 out of order; at the end: 0 missing, 0 twice, 0 out of order'
for script in hung many tenant; do
    sh "$(dirname "$0")/drive.sh" "$browser" "http://$address/" "$(dirname "$0")/$script.js" >"$work/page" 2>&1
    shows "$script: "
done

# A second scheduler, which wants a token.
token=$("$bin/kvrail" token eve read --append "$work/tokens")
"$bin/kvrail-scheduler" --insecure --listen 127.0.0.1:0 --port-file "$work/guarded.port" --state-dir "$work/guarded" \
    --token-file "$work/tokens" 2>"$work/guarded.log" &
guarded=$!
tries=0
until [ -s "$work/guarded.port" ]; do
    tries=$((tries + 1))
    [ $tries -lt 1200 ] || { echo "the scheduler does not start:"; cat "$work/guarded.log"; exit 1; }
    sleep 0.05
done
guarded_address=127.0.0.1:$(cat "$work/guarded.port")
sed "s/TOKEN/$token/" "$(dirname "$0")/sign_in.js" >"$work/sign_in.js"
sh "$(dirname "$0")/drive.sh" "$browser" "http://$guarded_address/" "$work/sign_in.js" >"$work/page" 2>&1
shows 'sign_in: You have signed out.'

if [ -n "${KVRAIL_SCREENSHOTS:-}" ]; then
    mkdir -p "$KVRAIL_SCREENSHOTS"
    for page in "" "#state=failed&open=$id"; do
        name=${page:+detail}
        browse --screenshot="$KVRAIL_SCREENSHOTS/${name:-overview}-light.png" "http://$address/$page" >/dev/null
        browse --blink-settings=preferredColorScheme=0 \
            --screenshot="$KVRAIL_SCREENSHOTS/${name:-overview}-dark.png" "http://$address/$page" >/dev/null
    done
    browse --screenshot="$KVRAIL_SCREENSHOTS/sign-in.png" "http://$guarded_address/" >/dev/null
fi
echo "page: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
