#!/bin/sh
# Goal: the thread that drives the rails runs on the cores that it was given, and without any on those
# beside its card; a list that is none is refused. Method: the kernel says where a thread may run.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need prefill-agent
core=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status | sed 's/.*[,-]//') # the last

# cores_of PID: where its rails' thread may run.
cores_of() {
    for task in /proc/"$1"/task/*; do
        [ "$(cat "$task/comm")" = kvr-rails ] || continue
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$task/status"
    done
}
# agent NAME OPTION...: starts one.
agent() {
    name=$1
    shift
    start "$name" "$bin/prefill-agent" --name "$name" --engine-socket "$work/$name.sock" \
        --listen 127.0.0.1:0 --provider tcp --insecure "$@"
    await "$name" "$work/$name.sock"
}

agent pinned --cores "$core"
[ "$(cores_of "$started")" = "$core" ] ||
    fail "the thread runs on '$(cores_of "$started")' and not on core $core"
agent free --cores any
[ "$(cores_of "$started")" = "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status)" ] ||
    fail "the thread is kept to '$(cores_of "$started")' although it may run on any core"

# Loopback lies nowhere; a card, where this machine has one, lies somewhere.
agent loopback
grep -q 'runs on any core: no card says where it lies' "$work/loopback.log" ||
    fail "the log does not place loopback"
card=$(ip -4 -o address show scope global up 2>/dev/null | awk '{ sub("/.*", "", $4); print $4; exit }')
if [ -n "$card" ]; then
    agent card --rail "$card"
    grep -q 'runs on [0-9]* cores near its cards' "$work/card.log" ||
        fail "a card does not say where it lies"
fi

# Of tcp every card is a word; without it the rail is loopback.
grep -q 'rail 0: 127.0.0.1 over' "$work/loopback.log" || fail "the default of tcp is not loopback"
if [ -n "$card" ]; then
    agent every --rail all
    grep -qF "$card" "$work/every.log" || fail "--rail all leaves $card out: $(cat "$work/every.log")"
fi
start one "$bin/prefill-agent" --name one --engine-socket "$work/one.sock" --listen 127.0.0.1:0 \
    --provider local --rail all --insecure
await one "$work/one.sock"

# Ends at once with that status and sentence. A bad option is status 2, so that it is not tried again.
refused() {
    expected=$1 sentence=$2 status=0
    shift 2
    timeout 20 "$bin/prefill-agent" --name x --engine-socket "$work/x.sock" --insecure "$@" 2>"$work/refused" || status=$?
    [ $status = "$expected" ] || fail "$* ended in $status"
    grep -q -- "$sentence" "$work/refused" || fail "$*: $(cat "$work/refused")"
}
refused 2 "--cores is '3-1'" --listen 127.0.0.1:0 --cores 3-1
refused 1 "--cores: .* given cores" --listen 127.0.0.1:0 --cores 1023
refused 2 "--group and --rail are both given" --listen 127.0.0.1:0 --group lo --rail lo
refused 2 "--rail all is every card" --listen 127.0.0.1:0 --rail all --rail lo
echo "e2e.cores: passed"
