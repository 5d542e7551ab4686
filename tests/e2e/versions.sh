#!/bin/sh
# Goal: programs of this version and of the last one with other protocols work together, or one of them refuses
# the other at once. It says both versions and what to upgrade first. No transfer fails later.
# Argument: the source folder, with its history. Method: that last version is built from its commit; then a replay
# over each pair of agents, of library and agent, of agents and scheduler, and of the old Python package and agent.
# A build takes a minute or two: only in a campaign.
set -eu
source=${1:?source folder}
last=83b088d # control protocol 6, engine protocol 2, reports over plain HTTP
[ -n "${KVRAIL_CAMPAIGN:-}" ] || { echo "only in a campaign"; exit 77; }
git -C "$source" cat-file -e "$last^{commit}" 2>/dev/null || {
    echo "the history of this clone has no $last: clone it whole"
    exit 77
}
# shellcheck disable=SC2034 # read by programs.sh; the old programs know no certificate
secure=no
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent
new=$bin
build=$source/build/versions/$last
old=$build/release/bin

build_last() {
    [ ! -x "$old/kvrail" ] || return 0
    rm -rf "$build"
    mkdir -p "$build/source"
    git -C "$source" archive "$last" | tar -x -C "$build/source"
    cmake -S "$build/source" -B "$build/release" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=OFF \
        >"$work/versions.log" 2>&1 &&
        cmake --build "$build/release" >>"$work/versions.log" 2>&1 || fail "the last version does not build"
}

# Of the programs that are started next: those of that folder, with the options that they know.
from() {
    bin=$1
    if [ "$bin" = "$old" ]; then
        credentials() { :; }
    elif [ "${tls_of_new:-no}" = yes ]; then
        credentials() {
            [ -e "$tls/$2.pem" ] || make_certificate "$@"
            echo "--tls-certificate $tls/$2.pem --tls-key $tls/$2-key.pem --tls-ca $tls/ca.pem"
        }
    else
        credentials() { echo "--insecure"; }
    fi
}

# begin SCHEDULER PREFILL DECODE: each of $new or $old.
begin() {
    scheduler='' source_agent=''
    from "$1" && start_of_scheduler "$1"
    from "$2" && start_prefill
    from "$3" && start_decode
}

start_of_scheduler() {
    rm -f "$work/scheduler.port"
    # shellcheck disable=SC2046 # options
    start scheduler "$1/kvrail-scheduler" $(credentials) --listen 127.0.0.1:0 --port-file "$work/scheduler.port" \
        --state-dir "$work/scheduler-$pair"
    scheduler_pid=$started
    await scheduler "$work/scheduler.port"
    scheduler=127.0.0.1:$(cat "$work/scheduler.port")
}

finish() {
    kill "$decode_pid" "$prefill_pid" "$scheduler_pid" 2>/dev/null || true
    wait "$decode_pid" "$prefill_pid" "$scheduler_pid" 2>/dev/null || true
    rm -rf "$work/prefill" "$work/decode"
    for name in scheduler prefill decode replay; do
        [ ! -e "$work/$name.log" ] || mv "$work/$name.log" "$work/$pair-$name.log"
    done
}

# works: the replay of $1 moves every request.
works() {
    from "$1"
    replay --requests 6 || fail "$pair: the replay ended in $?"
    expect verified 6
    expect bytes_wrong 0
}

# says LOG WORD…: one of its lines has every word.
says() {
    lines=$(cat "$1")
    shift
    for word in "$@"; do
        lines=$(printf '%s\n' "$lines" | grep -F -- "$word") || return 1
    done
}

# A replay that is refused ends soon, with an exit status, and has moved nothing.
moves_nothing() {
    from "$1"
    status=0
    (exec_replay --requests 2) & replay_pid=$!
    wait_for 30 not is_running "$replay_pid" || { kill "$replay_pid"; fail "$pair: the replay went on"; }
    wait "$replay_pid" || status=$?
    [ "$status" != 0 ] || fail "$pair: the replay ended well"
}

# The agents' own versions stand in the sentence of the one that refuses, and what to do about them.
agents_refuse() {
    wait_for 10 says "$work/decode.log" 'protocol version: the source speaks' "$1" "$2" 'upgrade both' ||
        fail "$pair: the decode-agent has no sentence with both versions: $(cat "$work/decode.log")"
    ! grep -q 'is up: ' "$work/prefill.log" || fail "$pair: the agents have a session"
}

# An older agent has no TLS, and none could say which version it speaks.
tls_refuses() {
    wait_for 10 says "$work/decode.log" 'TLS' 'upgrade prefill-agents and decode-agents together' ||
        fail "$pair: the decode-agent does not say what to do: $(cat "$work/decode.log")"
    ! grep -q 'is up: ' "$work/prefill.log" || fail "$pair: the agents have a session"
}

# The replay has the library of that version.
library_refused() {
    moves_nothing "$1"
    shift
    says "$work/replay.log" "$@" || fail "$pair: no sentence with $*"
}

build_last

pair=new && begin "$new" "$new" "$new" && works "$new" && finish
pair=old && begin "$old" "$old" "$old" && works "$old" && finish

# Agent and agent, without certificates and with them: a side with TLS says that the other one has none.
for pair in old_prefill old_decode old_prefill_tls old_decode_tls; do
    scheduler='' source_agent='' tls_of_new=no
    from "$new" && start_of_scheduler "$new"
    case $pair in *_tls) tls_of_new=yes ;; esac
    from "$new"
    case $pair in old_prefill*) from "$old" ;; esac
    start_prefill
    from "$new"
    case $pair in old_decode*) from "$old" ;; esac
    decode_options="--prefill-agent $source_agent"
    start_decode
    case $pair in
    *_tls) tls_refuses ;;
    *) agents_refuse '4 to 6' '7 to ' ;;
    esac
    decode_options=
    finish
done

tls_of_new=no

# Library and agent, either way.
pair=old_library && begin "$new" "$new" "$new" && library_refused "$old" 'version 2' 'this agent 3' install && finish
pair=new_library && begin "$old" "$old" "$old" && library_refused "$new" 'protocol 3' 'speaks 2' upgrade && finish

# Agents and scheduler: reports of either version are taken. Events of new kinds may be left out.
pair=old_agents && begin "$new" "$old" "$old" && works "$old"
moved target host 6
finish
pair=old_scheduler && begin "$old" "$new" "$new" && works "$new"
moved target host 6
finish

# The old Python package, as an old wheel has it, and a new agent.
pair=old_package && begin "$new" "$new" "$new"
cat >"$work/attach.py" <<'PY'
import sys, kvrail
try:
    kvrail.Connection(sys.argv[1], kvrail.Identity(layers_total=1, kv_heads_total=1, head_dim=8, model="m",
        dtype="bfloat16", name="e", engine=bytes(range(16)), generation=1))
except kvrail.KvrailError as error:
    print(error)
    sys.exit(3)
PY
status=0
PYTHONPATH=$build/source/common/python KVRAIL_LIBRARY=$(find "$build/release" -name 'libkvrail.so.1' | head -n 1) \
    python3 "$work/attach.py" "$work/source.sock" >"$work/attach.log" 2>&1 || status=$?
[ $status = 3 ] || fail "the old package is not refused: $(cat "$work/attach.log")"
says "$work/attach.log" 'version 2' 'this agent 3' 'install' ||
    fail "it names no versions, or no order: $(cat "$work/attach.log")"
finish
echo "versions: passed"
