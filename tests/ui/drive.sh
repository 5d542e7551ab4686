#!/bin/sh
# Runs a script in a page of headless Chromium and prints the text that its promise gives.
#
#   sh drive.sh BROWSER ADDRESS SCRIPT
#
# The script talks to the browser over its debugging pipe: JSON messages, each ended by a zero byte.
set -u
browser=${1:?} address=${2:?} script=${3:?}
work=$(mktemp -d /tmp/kvrail-drive-XXXXXX)
pids=
end() {
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$pids" ] || kill $pids 2>/dev/null
    wait
    rm -rf "$work"
}
trap end EXIT
trap 'exit 1' INT TERM

mkfifo "$work/asked" "$work/told"
: >"$work/answers"
"$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --window-size=1440,1400 \
    --user-data-dir="$work/profile" --remote-debugging-pipe about:blank \
    3<"$work/asked" 4>"$work/told" >/dev/null 2>"$work/browser" &
pids=$!
stdbuf -o0 tr '\0' '\n' <"$work/told" >"$work/answers" &
pids="$pids $!"
exec 8>"$work/asked"

# ask NUMBER SECONDS REST: sends a message and puts its answer into $answer.
ask() {
    printf '{"id":%d,%s}\0' "$1" "$3" >&8
    tries=0
    until answer=$(grep -a "^{\"id\":$1,.*}\$" "$work/answers"); do
        tries=$((tries + 1))
        if [ $tries -gt $(($2 * 10)) ]; then
            echo "the browser does not answer: $3"
            tail -n 5 "$work/browser"
            exit 1
        fi
        sleep 0.1
    done
}

# member NAME: prints a string member of $answer.
member() {
    echo "$answer" | sed -n "s/.*\"$1\":\"\\([^\"]*\\)\".*/\\1/p"
}

ask 1 60 "\"method\":\"Target.createTarget\",\"params\":{\"url\":\"$address\"}"
ask 2 30 "\"method\":\"Target.attachToTarget\",\"params\":{\"targetId\":\"$(member targetId)\",\"flatten\":true}"
session=$(member sessionId)

# run NUMBER SECONDS EXPRESSION: evaluates it in the page; the result of its promise is the answer.
run() {
    ask "$1" "$2" "\"sessionId\":\"$session\",\"method\":\"Runtime.evaluate\",\"params\":{\"expression\":\"$3\",\"awaitPromise\":true,\"returnByValue\":true}"
}

number=3
until run $number 30 "document.readyState + ' ' + location.href" && [ "$(member value)" = "complete $address" ]; do
    number=$((number + 1))
    [ $number -lt 300 ] || { echo "the page is not loaded: $answer"; exit 1; }
    sleep 0.1
done
run 1000 90 "$(sed '/^ *\/\//d; s/\\/\\\\/g; s/"/\\"/g' "$script" | tr '\n' ' ')"
text=$(member value)
echo "${text:-$answer}"
