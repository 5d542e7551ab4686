#!/bin/sh
# The whole of kvrail on one machine: a scheduler, a prefill-agent and a decode-agent on loopback, and
# two engines that move the KV cache of N requests: simulated ones that check every byte, or vLLM.
#
#   sh tests/demo.sh [--requests N] [--trace FILE] [--provider P] [--json FILE] [--corrupt KIND] [--stay]
#   sh tests/demo.sh --engine vllm [--requests N] [--provider P] [--stay]
#
# --engine E      sim (the default), or vllm: two servers on the CPU with a small model and a proxy
#                 before them; their answers are compared with one server's
# --requests N    how many requests (default 200; 50 with vllm)
# --trace FILE    request trace in Mooncake's form; one is synthesised when not given
# --provider P    tcp (two rails, the default) or local (one)
# --json FILE     write the figures there
# --corrupt KIND  plant a fault that must be found, and so end in exit 1: page, layer or swap
# --stay          leave the programs running, and say where the dashboard is
#
# Installs what is missing and builds first, or takes the programs in $KVRAIL_BIN_DIR. vLLM (3.5 GB)
# goes into build/engines, unless KVRAIL_ENGINES_VENV names a virtual environment that has it. The
# last line is the verdict; exit 0 only if it is good, 77 where vLLM cannot run.
set -eu
export LC_ALL=C

usage() {
    echo "demo.sh: $1" >&2
    exit 2
}

absolute() {
    case $1 in
    /*) echo "$1" ;;
    *) echo "$(pwd)/$1" ;;
    esac
}

engine=sim
requests=
trace=
provider=tcp
json=
corrupt=
stay=
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        sed -n '2,22s/^# \{0,1\}//p' "$0"
        exit 0
        ;;
    --stay) stay=1 ;;
    --engine | --requests | --trace | --provider | --json | --corrupt)
        [ $# -gt 1 ] || usage "$1 lacks its value"
        case $1 in
        --engine) engine=$2 ;;
        --requests) requests=$2 ;;
        --trace) trace=$(absolute "$2") ;;
        --provider) provider=$2 ;;
        --json) json=$(absolute "$2") ;;
        --corrupt) corrupt=$2 ;;
        esac
        shift
        ;;
    *) usage "there is no option $1; --help lists them all" ;;
    esac
    shift
done
case $engine in
sim) requests=${requests:-200} ;;
vllm)
    requests=${requests:-50}
    [ -z "$trace$json$corrupt" ] || usage "--trace, --json and --corrupt are not for --engine vllm"
    ;;
*) usage "--engine is '$engine', but must be sim or vllm" ;;
esac
case $requests in
'' | 0 | *[!0-9]*) usage "--requests is '$requests', but must be a number from 1" ;;
esac
case $provider in
tcp) rails="--rail 127.0.0.1 --rail 127.0.0.2" ;;
local) rails= ;;
shm) usage "--provider is 'shm', but provider shm was removed: use local" ;;
*) usage "--provider is '$provider', but on one machine it must be tcp or local" ;;
esac
case $corrupt in
'' | page | layer | swap) ;;
*) usage "--corrupt is '$corrupt', but must be page, layer or swap" ;;
esac
[ -z "$trace" ] || [ -r "$trace" ] || usage "--trace is '$trace', but that cannot be read"
# What an earlier run left there is not taken for the figures of this one.
[ -z "$json" ] || (: >"$json") 2>/dev/null || usage "--json is '$json', but that cannot be written"

cd "$(dirname "$0")/.."
unset KVRAIL_CONFIG
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-demo.XXXXXX")
pids=

stop_all() {
    for pid in $pids; do
        kill "$pid" 2>/dev/null || true
    done
    tries=0
    for pid in $pids; do
        while kill -0 "$pid" 2>/dev/null && [ $tries -lt 600 ]; do
            sleep 0.1
            tries=$((tries + 1))
        done
        kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}

trap stop_all EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# What a step wrote is shown only when it fails.
quietly() {
    if ! "$@" >"$work/step.log" 2>&1 </dev/null; then
        cat "$work/step.log" >&2
        exit 1
    fi
}

bin=${KVRAIL_BIN_DIR:-}
if [ -z "$bin" ]; then
    sh tests/support/install.sh build
    if [ ! -x build/release/bin/kvrail ]; then
        echo "Building, which takes a minute or two the first time ..."
    fi
    [ -f build/release/build.ninja ] || quietly cmake --preset release -DBUILD_TESTING=OFF
    quietly cmake --build --preset release \
        --target kvrail-scheduler prefill-agent decode-agent kvrail kvr_client
    bin=$(pwd)/build/release/bin
fi
if [ $engine = vllm ]; then
    KVRAIL_ROOT_DIR=$(pwd)
    . tests/engines/environment.sh
    need_machine 8192
    make_environment
fi

# start NAME PROGRAM ARGUMENT…: in the background, with a log of its own.
start() {
    name=$1
    shift
    nohup "$@" >"$work/$name.log" 2>&1 </dev/null &
    pids="$pids $!"
    started=$!
}

# await NAME FILE: until the program just started has made that file.
await() {
    tries=0
    while [ ! -s "$2" ] && [ ! -S "$2" ]; do
        tries=$((tries + 1))
        if ! kill -0 "$started" 2>/dev/null || [ $tries -gt 300 ]; then
            echo "$1 did not start:" >&2
            cat "$work/$1.log" >&2
            exit 1
        fi
        sleep 0.1
    done
}

# A CA of this demonstration alone.
quietly "$bin/kvrail" certificates init "$work/tls" --fleet demo
quietly "$bin/kvrail" certificates issue "$work/tls" prefill prefill-0 decode decode-0 \
    scheduler scheduler client operator --host 127.0.0.1
credentials() {
    echo "--tls-certificate $work/tls/$1.pem --tls-key $work/tls/$1-key.pem --tls-ca $work/tls/ca.pem"
}

# A browser signs in with a token; commands have the certificate of an operator.
(umask 077 && "$bin/kvrail" token demo act --append "$work/tokens" >"$work/token")
# shellcheck disable=SC2046 # options
start scheduler "$bin/kvrail-scheduler" $(credentials scheduler) --token-file "$work/tokens" \
    --listen 127.0.0.1:0 --state-dir "$work/scheduler" --port-file "$work/scheduler.port"
await scheduler "$work/scheduler.port"
scheduler=127.0.0.1:$(cat "$work/scheduler.port")

# shellcheck disable=SC2046,SC2086 # lists of options
start prefill-agent "$bin/prefill-agent" --name prefill-0 $(credentials prefill-0) --engine-socket "$work/source.sock" \
    --listen 127.0.0.1:0 --port-file "$work/prefill.port" --provider "$provider" $rails \
    --scheduler "$scheduler" --state-dir "$work/prefill"
await prefill-agent "$work/prefill.port"
await prefill-agent "$work/source.sock"
source_agent=127.0.0.1:$(cat "$work/prefill.port")

# shellcheck disable=SC2046,SC2086
start decode-agent "$bin/decode-agent" --name decode-0 $(credentials decode-0) --engine-socket "$work/target.sock" \
    --provider "$provider" $rails --scheduler "$scheduler" --state-dir "$work/decode"
await decode-agent "$work/target.sock"

# In the background, so that a signal need not wait for its end. The status is in $verdict.
run() {
    "$@" </dev/null &
    agents=$pids
    pids="$! $pids"
    verdict=0
    wait $! || verdict=$?
    pids=$agents
}

# A number of the figures; 0 when it is not there.
figure() {
    # shellcheck disable=SC2020
    value=$(tr ',{}' '\n\n\n' <"${json:-$work/figures.json}" |
        sed -n "s/^ *\"$1\": *\\([0-9.eE+-]*\\) *\$/\\1/p" | head -n 1)
    echo "${value:-0}"
}

# Simulated engines; $last is the last line.
replay() {
    if [ -z "$trace" ]; then
        trace=$work/trace.jsonl
        quietly "$bin/kvrail" trace synth --requests "$requests" --seed 1 --output "$trace"
    fi
    # shellcheck disable=SC2046 # options
    set -- --trace "$trace" --format mooncake --requests "$requests" --verify full \
        --source-socket "$work/source.sock" --target-socket "$work/target.sock" \
        --source-agent "$source_agent" --scheduler "$scheduler" $(credentials operator) --json "${json:-$work/figures.json}"
    [ -z "$corrupt" ] || set -- "$@" --corrupt "$corrupt"
    run "$bin/kvrail" replay "$@"
    if [ ! -s "${json:-$work/figures.json}" ]; then
        echo "demo: the replay wrote no figures (exit $verdict)"
        exit 1
    fi
    transfers=$(figure transfers) verified=$(figure verified)
    failed=$(figure failed) wrong=$(figure bytes_wrong)
    last=$(printf 'demo: %s transfers, %s verified, %s failed, %s bytes wrong, %.2f GB/s' \
        "$transfers" "$verified" "$failed" "$wrong" "$(figure gb_s)")
    [ "$transfers" -gt 0 ] && [ "$transfers" -eq "$verified" ] &&
        [ "$failed" -eq 0 ] && [ "$wrong" -eq 0 ] || verdict=1
}

# Two servers of vLLM and the proxy. Those that stay are process groups, in $groups.
groups=
ask_vllm() {
    python_path
    export KVRAIL_BIN_DIR="$bin" \
        KVRAIL_LIBRARY="${KVRAIL_LIBRARY:-$bin/../lib/libkvrail.so.1}" WORK_FOLDER="$work" \
        SOURCE_SOCKET="$work/source.sock" TARGET_SOCKET="$work/target.sock" KVRAIL_SCHEDULER="$scheduler" \
        SCHEDULER_TLS="$work/tls"
    run "$venv/bin/python3" tests/engines/demo.py "$requests" ${stay:+--stay}
    if [ ! -s "$work/verdict" ]; then
        tail -n 5 "$work"/*kv_*.log "$work"/proxy.log >&2 2>/dev/null || true
        echo "demo: vllm: no verdict (exit $verdict)"
        exit 1
    fi
    last=$(cat "$work/verdict")
    groups=$(cat "$work/groups" 2>/dev/null || true)
}

case $engine in
sim) replay ;;
vllm) ask_vllm ;;
esac

if [ -n "$stay" ]; then
    trap - EXIT
    {
        echo "work='$work' pids='$pids' groups='$groups'"
        cat <<'END'
# A process that has ended may stay as a zombie until its parent waits for it.
runs() { [ -n "$(tr -d '\0' 2>/dev/null </proc/"$1"/cmdline)" ]; }
tries=0
for pid in $pids; do
    kill "$pid" 2>/dev/null
done
for pid in $groups; do
    kill -s TERM -- "-$pid" 2>/dev/null
done
for pid in $groups $pids; do
    while runs "$pid" && [ $tries -lt 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    while runs "$pid"; do
        kill -9 "$pid" 2>/dev/null
        sleep 0.1
    done
done
for pid in $groups; do
    kill -s KILL -- "-$pid" 2>/dev/null
done
rm -rf "$work"
END
    } >"$work/stop"
    echo "The dashboard: https://$scheduler/   (its CA: $work/tls/ca.pem; its token: $(cat "$work/token"))"
    echo "To stop it all: sh $work/stop"
fi
echo "$last"
[ "$verdict" -eq 0 ]
