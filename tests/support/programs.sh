# shellcheck shell=sh disable=SC2034 # what is set here is read by the test
# Shell functions for tests that start real programs: sourced, by dash, with KVRAIL_BIN_DIR in the
# environment (ctest sets it). Everything lives in one folder, $work, and ends with the test.
#
#   . "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
#   start_scheduler; start_prefill; start_decode
#   replay --requests 20 || fail "..."
#   [ "$(figure verified)" = 20 ] || fail "..."
export LC_ALL=C
unset KVRAIL_CONFIG
# What the examples' engines have in common.
REQUEST_SECRET=6b76726169006b768292a2b2c2d2e2f201122334455667788a9babbccddeeff0
export REQUEST_SECRET
bin=${KVRAIL_BIN_DIR:?"set KVRAIL_BIN_DIR to the folder of the built programs"}
provider=${provider:-tcp}
# Every time limit here is multiplied by it; where a sanitizer is, so are the agents' times.
patience=${KVRAIL_PATIENCE:-$((${KVRAIL_TIME_SCALE:-100} / 100))}
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-test.XXXXXX")
# Certificates of this test's own CA; in memory where there is some, because each file is synced.
tls=$work/tls
[ ! -w /dev/shm ] || tls=/dev/shm/${work##*/}
# A test that speaks the protocol itself, as plain text, sets it to no. A bare host has nothing that could ask
# the scheduler over TLS.
secure=${KVRAIL_TEST_SECURE:-yes}
if ! command -v curl >/dev/null && ! command -v openssl >/dev/null; then
    echo "programs run with --insecure: there is neither curl nor openssl" >&2
    secure=no
fi
started_pids=

# wait_for SECONDS COMMAND…: until the command succeeds; false if it has not after that long, which is
# longer where everything is slower. Tests wait for conditions with it, and never for a time.
wait_for() {
    waits_left=$(($1 * patience * 20))
    shift
    until "$@"; do
        waits_left=$((waits_left - 1))
        [ $waits_left -gt 0 ] || return 1
        sleep 0.05
    done
}

# until_met ATTEMPTS COMMAND…: runs the command until it succeeds; false if it never does. For tests of
# which the machine decides whether they meet what they are about: the command fails the test by `fail`
# where something is wrong, and returns false where it has met nothing.
until_met() {
    attempts_left=$1
    shift
    until "$@"; do
        attempts_left=$((attempts_left - 1))
        [ $attempts_left -gt 0 ] || return 1
    done
}

# Conditions: a file has a text (file_has FILE TEXT), a process runs (is_running PID), the opposite (not …).
file_has() { grep -qsF -- "$2" "$1"; }
is_running() { kill -0 "$1" 2>/dev/null; }
not() { ! "$@"; }

# A build that lacks a program skips the test.
need() {
    for program in "$@"; do
        [ -x "$bin/$program" ] && continue
        echo "$program was not built" >&2
        exit 77
    done
}

# The first report of a sanitizer, which may stand far above the end of a log.
sanitizer_said() {
    sed -n '/^WARNING: ThreadSanitizer\|ERROR: AddressSanitizer\|: runtime error: /,/^SUMMARY/p' "$1" | head -n 80
}

fail() {
    echo "FAILED: $*" >&2
    # shellcheck disable=SC2012 # names are ours; what was written last is read first
    for log in $(ls -t "$work"/*.log 2>/dev/null); do
        [ -s "$log" ] || continue
        echo "--- the end of $(basename "$log"):" >&2
        tail -n 30 "$log" >&2
        sanitizer_said "$log" >&2
    done
    tell_cores >&2
    tell_more >&2
    exit 1
}

# How long each thread that still runs has computed, and has waited for a core: programs that were never
# let run look as if the network had been silent.
tell_cores() {
    echo "--- load $(cat /proc/loadavg); threads, ms computed, ms waited for a core:"
    for pid in $started_pids; do
        for thread in "/proc/$pid/task"/*; do
            [ -r "$thread/schedstat" ] || continue
            read -r ran waited _ <"$thread/schedstat" || continue
            echo "$pid $(cat "$thread/comm"): $((ran / 1000000)), $((waited / 1000000))"
        done
    done
}

# Called at the end of `fail`; a file of helpers may put its own here.
tell_more() { :; }

# ours PID: a child of this shell; the number of one that has ended may be another's process by now.
ours() {
    [ "$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)" = $$ ]
}

stop_programs() {
    for pid in $started_pids; do
        ! ours "$pid" || kill "$pid" 2>/dev/null || true
    done
    for pid in $started_pids; do
        wait_for 5 not ours "$pid" || true
        ! ours "$pid" || kill -9 "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work" "$tls"
}
trap stop_programs EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# start NAME PROGRAM ARGUMENT…: in the background; its pid is in $started.
start() {
    name=$1
    shift
    "$@" >>"$work/$name.log" 2>&1 </dev/null &
    started=$!
    started_pids="$started_pids $started"
}

# await NAME FILE: until the program just started has made that file or socket.
await() {
    wait_for 30 has_made "$2" || fail "$1 did not get ready in $((30 * patience)) s"
    [ -s "$2" ] || [ -S "$2" ] || fail "$1 ended while it started"
}

has_made() {
    [ -s "$1" ] || [ -S "$1" ] || not is_running "$started"
}

# credentials ROLE NAME: the options by which a program of that role and name proves its identity.
credentials() {
    if [ "$secure" = no ]; then
        echo "--insecure"
        return
    fi
    [ -e "$tls/$2.pem" ] || make_certificate "$@"
    echo "--tls-certificate $tls/$2.pem --tls-key $tls/$2-key.pem --tls-ca $tls/ca.pem"
}

# Those that most tests use are made together. A test may put options of each in $certificate_options.
make_certificate() {
    if [ ! -e "$tls/ca.pem" ]; then
        "$bin/kvrail" certificates init "$tls" >>"$work/certificates.log" 2>&1 || fail "no CA was made"
        # shellcheck disable=SC2086 # options
        "$bin/kvrail" certificates issue "$tls" prefill prefill-0 decode decode-0 scheduler scheduler \
            client tests --host 127.0.0.1 --host localhost ${certificate_options:-} \
            >>"$work/certificates.log" 2>&1 ||
            fail "no certificates were made"
    fi
    # shellcheck disable=SC2086 # options
    [ -e "$tls/$2.pem" ] || "$bin/kvrail" certificates issue "$tls" "$1" "$2" --host 127.0.0.1 ${certificate_options:-} \
        >>"$work/certificates.log" 2>&1 || fail "no certificate was made for $2"
}

# The rails of the provider under test; some tests put their own in $rails, or for one side in
# $prefill_rails or $decode_rails.
default_rails() {
    case $provider in
        tcp*) echo "--rail 127.0.0.1 --rail 127.0.0.2" ;;
    esac
}

# For programs in Python that ask the scheduler.
scheduler_tls() { [ "$secure" = no ] || echo "$tls"; }

# tool ARGUMENT…: a command of `kvrail` that asks the scheduler, as a client of this test's CA.
tool() {
    # shellcheck disable=SC2046 # variables
    env $(tool_environment) "$bin/kvrail" "$@"
}

tool_environment() {
    [ "$secure" = no ] ||
        echo "KVRAIL_TLS_CA=$tls/ca.pem KVRAIL_TLS_CERTIFICATE=$tls/tests.pem KVRAIL_TLS_KEY=$tls/tests-key.pem"
}

# ask_scheduler PATH [ARGUMENT…]: as a client of this test's CA; arguments of curl.
ask_scheduler() {
    path=$1
    shift
    if [ "$secure" = no ]; then
        set -- "$@" "http://$scheduler$path"
    else
        set -- "$@" --cacert "$tls/ca.pem" --cert "$tls/tests.pem" --key "$tls/tests-key.pem" "https://$scheduler$path"
    fi
    curl -s -m $((10 * patience)) "$@"
}

# The scheduler's metrics. A bare host has bash, and perhaps no curl.
metrics() {
    if command -v curl >/dev/null; then
        ask_scheduler /metrics
    elif [ "$secure" = no ]; then
        # shellcheck disable=SC2016 # bash expands it
        timeout $((10 * patience)) bash -c 'exec 3<>"/dev/tcp/${0%:*}/${0##*:}" &&
            printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && cat <&3' "$scheduler" 2>/dev/null | tr -d '\r'
    else
        printf 'GET /metrics HTTP/1.0\r\n\r\n' | timeout $((10 * patience)) openssl s_client -quiet \
            -connect "$scheduler" -CAfile "$tls/ca.pem" -cert "$tls/tests.pem" -key "$tls/tests-key.pem" 2>/dev/null |
            tr -d '\r'
    fi
}

# moved ROLE PATH COUNT: so many transfers, the scheduler says, once the agents have reported them.
moved() {
    wait_for 30 has_moved "$@" || fail "not $3 transfers of a $1 are $2:
$(metrics | grep ^kvrail_transfer_sides_done_)"
}

has_moved() {
    [ "$(metrics | sed -n "s/^kvrail_transfer_sides_done_total{role=\"$1\",path=\"$2\"} //p")" = "$3" ]
}

start_scheduler() {
    need kvrail-scheduler
    rm -f "$work/scheduler.port"
    # shellcheck disable=SC2046,SC2086 # options
    start scheduler "$bin/kvrail-scheduler" $(credentials scheduler scheduler) --listen "${scheduler:-127.0.0.1:0}" \
        --port-file "$work/scheduler.port" --state-dir "$work/scheduler" ${scheduler_options:-}
    scheduler_pid=$started
    await scheduler "$work/scheduler.port"
    scheduler=127.0.0.1:$(cat "$work/scheduler.port")
}

# A second call starts it again where it was: the same address, socket and state.
start_prefill() {
    need prefill-agent
    rm -f "$work/prefill.port" "$work/source.sock"
    # shellcheck disable=SC2046,SC2086 # a list of options
    start prefill "$bin/prefill-agent" --name prefill-0 $(credentials prefill prefill-0) \
        --engine-socket "$work/source.sock" --listen "${source_agent:-127.0.0.1:0}" --port-file "$work/prefill.port" \
        --provider "$provider" ${prefill_rails:-${rails:-$(default_rails)}} \
        --scheduler "$scheduler" --state-dir "$work/prefill" ${prefill_options:-}
    prefill_pid=$started
    await prefill "$work/prefill.port"
    await prefill "$work/source.sock"
    source_agent=127.0.0.1:$(cat "$work/prefill.port")
}

start_decode() {
    need decode-agent
    rm -f "$work/target.sock"
    # shellcheck disable=SC2046,SC2086
    start decode "$bin/decode-agent" --name decode-0 $(credentials decode decode-0) \
        --engine-socket "$work/target.sock" --provider "$provider" ${decode_rails:-${rails:-$(default_rails)}} \
        --scheduler "$scheduler" --state-dir "$work/decode" ${decode_options:-}
    decode_pid=$started
    await decode "$work/target.sock"
}

# For tests where no honest write may meet a key that is closed (design.md, rule 14): libfabric's tcp logs each
# such write, and ends its connection. dead_keys_met counts them. Before start_decode: watch_keys.
watch_keys() { export FI_LOG_LEVEL=warn; }
dead_keys_met() { grep -c "invalid rma iov" "$work/decode.log" || true; }
expect_keys_hold() { [ "$(dead_keys_met)" = 0 ] || fail "$(dead_keys_met) writes came with keys that are closed"; }

# hold_pair SOURCE_AGENT WORD: one transfer of tests/support/pair.c, held behind its first layer. A line to
# descriptor 4, or its end, lets the transfer go on. Its pid is in $pair.
hold_pair() {
    mkfifo "$work/go_on"
    "$bin/../tests/pair" "$work/source.sock" "$work/target.sock" "$@" <"$work/go_on" >>"$work/pair.log" 2>&1 &
    pair=$!
    started_pids="$started_pids $pair"
    exec 4>"$work/go_on"
    wait_for 30 file_has "$work/pair.log" held || fail "no layer came"
}

start_all() {
    need kvrail kvrail-scheduler prefill-agent decode-agent
    start_scheduler
    start_prefill
    start_decode
}

# Becomes the replay: only in a subshell, which is then what a kill meets.
exec_replay() {
    rm -f "$work/figures.json" "$work/pids"
    # shellcheck disable=SC2046 # variables
    exec env $(tool_environment) "$bin/kvrail" replay --source-socket "$work/source.sock" \
        --target-socket "$work/target.sock" --source-agent "${source_agent:-127.0.0.1:1}" \
        --json "$work/figures.json" --pid-file "$work/pids" \
        --kv-bytes-per-token 2k --pool-bytes 64M "$@" >>"$work/replay.log" 2>&1
}

# replay ARGUMENT…: small unless the arguments say otherwise; its exit status is the function's.
replay() {
    (exec_replay "$@")
}

# The same in the background; `finish_replay` waits and leaves the exit status in $replay_status.
replay_in_background() {
    exec_replay "$@" &
    replay_pid=$!
    started_pids="$started_pids $replay_pid"
}

# Requests that the replay in the background has ended so far. It runs with --progress.
progress() {
    sed -n 's/.*\] \([0-9]*\)\/.*/\1/p' "$work/replay.log" 2>/dev/null | tail -n 1
}

# await_progress [COUNT]: until the replay in the background has ended more than so many requests, so that
# a fault now meets transfers on their way.
await_progress() {
    wait_for 30 has_progressed "${1:-0}" || fail "the replay made no progress in $((30 * patience)) s"
    is_running "$replay_pid" || fail "the replay ended too early"
}

has_progressed() {
    ended=$(progress)
    [ "${ended:-0}" -gt "$1" ] || not is_running "$replay_pid"
}

finish_replay() {
    replay_status=0
    wait "$replay_pid" || replay_status=$?
}

# replays_beside COUNT: so many small replays side by side, each again and again until
# `finish_replays_beside`, which fails the test if any of them lost something.
replays_beside() {
    beside_pids=
    rm -f "$work/beside.stop"
    for number in $(seq "$1"); do
        replay_until_stopped "$number" &
        beside_pids="$beside_pids $!"
        started_pids="$started_pids $!"
    done
    wait_for 60 all_have_begun "$1" || fail "not all replays beside have begun"
}

# In a subshell. Its rounds are counted by lines of a file.
replay_until_stopped() {
    trap - EXIT
    : >"$work/beside-$1.rounds"
    until [ -e "$work/beside.stop" ]; do
        # shellcheck disable=SC2046,SC2086 # variables, options
        env $(tool_environment) "$bin/kvrail" replay --source-socket "$work/source.sock" \
            --target-socket "$work/target.sock" --source-agent "$source_agent" --requests 10 --concurrency 1 \
            --seed $(($1 * 1000 + $(wc -l <"$work/beside-$1.rounds"))) --kv-bytes-per-token 512 --layers 4 --pool-bytes 8M \
            --json "$work/beside-$1.json" ${beside_options:-} >"$work/beside-$1.log" 2>&1 || return 1
        grep -q '^  "verified": 10,*$' "$work/beside-$1.json" || return 1
        echo >>"$work/beside-$1.rounds"
    done
}

all_have_begun() {
    for number in $(seq "$1"); do
        [ -s "$work/beside-$number.rounds" ] || return 1
    done
}

finish_replays_beside() {
    : >"$work/beside.stop"
    for pid in $beside_pids; do
        wait "$pid" || fail "a replay beside lost something"
    done
    echo "$(echo "$beside_pids" | wc -w) replays side by side, $(($(cat "$work"/beside-*.rounds | wc -l) * 10)) requests verified"
}

# figure NAME: a number of the figures; figure transfer_ms.p99 one below a name.
figure() {
    case $1 in
    *.*)
        sed -n "/^  \"${1%.*}\": {/,/}/p" "$work/figures.json" |
            sed -n "s/^ *\"${1#*.}\": *\\([-0-9.e+]*\\),*\$/\\1/p" | head -n 1
        ;;
    *) sed -n "s/^  \"$1\": *\\([-0-9.e+]*\\),*\$/\\1/p" "$work/figures.json" | head -n 1 ;;
    esac
}

# expect NAME VALUE: the figure is that number.
expect() {
    [ "$(figure "$1")" = "$2" ] || fail "$1 is $(figure "$1"), not $2"
}

# scaled TIME: a bound for what the agents' times decide, where every time is scaled.
scaled() {
    echo $(($1 * ${KVRAIL_TIME_SCALE:-100} / 100))
}

# expect_most NAME VALUE: the figure is there, and not larger.
expect_most() {
    value=$(figure "$1")
    [ -n "$value" ] || fail "there is no figure $1"
    [ "$(printf '%.0f' "$value")" -le "$2" ] || fail "$1 is $value, more than $2"
}

# in_log TEXT: the replay said it.
in_log() {
    grep -q -- "$1" "$work/replay.log" || fail "the replay did not say '$1'"
}

