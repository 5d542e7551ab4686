#!/bin/sh
# Goal: `kvrail doctor` checks this host, and hosts that a file describes. Its exit status says whether
# something is wrong. Limits are those of its own process. With --peer it compares this host, or an agent,
# with another agent. Method: a limit that is too low, a driver of host memory, and files with and without
# faults; two agents that run, then one that is stopped, and names and schedulers that are not there.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail
says() {
    grep -q -- "$2" "$1" || fail "$(basename "$1") does not say '$2': $(cat "$1")"
}
# doctor NAME OPTION…: into $work/NAME; sets status.
doctor() {
    name=$1
    shift
    status=0
    "$bin/kvrail" doctor "$@" >"$work/$name" || status=$?
}
# The status is 1 exactly where something is wrong.
agrees() {
    case $status:$(sed -n 's/^  "wrong": \([0-9]*\),$/\1/p' "$work/$1") in
    0:0 | 1:[1-9]*) ;;
    *) fail "doctor ended in $status, with $(cat "$work/$1")" ;;
    esac
}
# state_is NAME CHECK STATE: of a finding in JSON.
state_is() {
    grep -A 1 "\"check\": \"$2\"" "$work/$1" | grep -q "\"state\": \"$3\"" ||
        fail "$1: $2 is not $3: $(cat "$work/$1")"
}

doctor here
says "$work/here" '^libfabric  *ok  *libfabric .* kvrail is built with its API'
says "$work/here" '^rails  *ok  *tcp: '
says "$work/here" '^open_files  *ok  *RLIMIT_NOFILE allows '
says "$work/here" '^clock  '
says "$work/here" '^[0-9][0-9]* wrong, [0-9][0-9]* warning'
doctor here.json --json
agrees here.json
for check in libfabric rails cards card_link device_memory gpu_driver open_files locked_memory memfd pidfd clock; do
    says "$work/here.json" "\"check\": \"$check\""
done
for check in open_files memfd pidfd; do
    state_is here.json $check ok
done

# Agents that copy within this host need no card.
doctor local.json --provider local --json
state_is local.json cards absent

doctor_with_few_files() (
    ulimit -n 256
    doctor few.json --json
    agrees few.json
    [ $status = 1 ] || fail "256 open files are enough"
)
doctor_with_few_files
state_is few.json open_files wrong
says "$work/few.json" 'RLIMIT_NOFILE allows 256 open files'

driver="$bin/../tests/fake_cuda"
if [ -e "$driver/libcuda.so.1" ] && [ ! -e /dev/nvidiactl ]; then
    export LD_LIBRARY_PATH="$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export FAKE_CUDA_GPUS=2
    doctor gpus.json --json
    agrees gpus.json
    state_is gpus.json gpu_driver ok
    state_is gpus.json gpu_nodes wrong
    state_is gpus.json gpu_copies ok
    state_is gpus.json gpu_order ok
    export FAKE_CUDA_ORDERING=0 FAKE_CUDA_FLUSH_OPTIONS=0
    doctor gpus.json --json
    state_is gpus.json gpu_order warning
fi

# doctor_of HOST: of a host in tests/unit/topology.
doctor_of() {
    awk -f "$KVRAIL_ROOT_DIR/tests/support/host_xml.awk" \
        "$KVRAIL_ROOT_DIR/tests/unit/topology/$1.host" >"$work/$1.xml"
    doctor "$1.json" --xml "$work/$1.xml" --json
    agrees "$1.json"
}
doctor_of p5
[ $status = 0 ] || fail "something is wrong with a p5: $(cat "$work/p5.json")"
state_is p5.json gpu_cards ok
state_is p5.json card_mtu absent
says "$work/p5.json" '"warnings": 0'
doctor_of odd
[ $status = 1 ] || fail "a link that is down is not wrong"
state_is odd.json card_link wrong
state_is odd.json card_speed warning
state_is odd.json gpu_cards warning
says "$work/odd.json" '"remedy": "look at its cable and its switch port"'
doctor_of vm
[ $status = 1 ] || fail "a host without a card is well"
state_is vm.json cards wrong

status=0
"$bin/kvrail" doctor --xml "$work/nowhere.xml" 2>"$work/nowhere" || status=$?
[ $status = 1 ] || fail "doctor of no file ended in $status"
status=0
"$bin/kvrail" doctor --nonsense 2>"$work/nonsense" || status=$?
[ $status = 2 ] || fail "doctor --nonsense ended in $status"

# ---- two hosts ----
# peer NAME OPTION…: as doctor, with this test's certificate.
peer() {
    name=$1
    shift
    status=0
    # shellcheck disable=SC2046 # variables
    env $(tool_environment) "$bin/kvrail" doctor --scheduler "$scheduler" "$@" >"$work/$name" 2>"$work/$name.said" ||
        status=$?
}
knows_both() { [ "$(ask_scheduler /api/v1/agents | grep -o '"state":"up","boot"' | wc -l)" = 2 ]; }

decode_options="--rail-ports 20000-20063"
start_scheduler
start_prefill
start_decode
wait_for 20 knows_both || fail "the agents do not report"
peer pair.json --peer prefill-0 --from decode-0 --json
agrees pair.json
[ $status = 0 ] || fail "two agents of one host do not fit together: $(cat "$work/pair.json")"
for check in agent version libfabric limits control ports provider rails mtu; do
    state_is pair.json peer_$check ok
done
for check in insecure clock planes speed link pfc ecn gpudirect; do
    says "$work/pair.json" "\"check\": \"peer_$check\""
done
says "$work/pair.json" "rails of decode-0 listen at ports 20000 to 20063"
says "$work/pair.json" "$source_agent of prefill-0 takes connections from here"
! grep -q '"check": "open_files"' "$work/pair.json" || fail "--from checks this host too"
! grep -q 'not reported' "$work/pair.json" || fail "an agent leaves something out: $(cat "$work/pair.json")"

# On a busy host a report may come late, and then the clocks look different.
clocks_agree() {
    peer both --peer decode-0 --provider "$provider"
    grep -q "^peer_clock  *[a-z ]*  *both clocks differ by less than" "$work/both"
}
wait_for 30 clocks_agree || fail "the clocks of one host differ: $(cat "$work/both")"
says "$work/both" '^open_files  *ok '
says "$work/both" "^peer_version  *ok  *kvrail .* at both"
says "$work/both" "^peer_provider  *ok  *$provider at both"
says "$work/both" "^peer_control  *not here  *decode-0 listens for no agent"
peer other --peer decode-0 --provider verbs
[ $status = 1 ] || fail "two providers fit together"
says "$work/other" "^peer_provider  *WRONG "

peer nobody --peer prefill-1
[ $status = 1 ] || fail "--peer of no agent ended in $status"
says "$work/nobody.said" "knows no agent 'prefill-1'; it knows decode-0, prefill-0"
peer alone --from decode-0
[ $status = 2 ] || fail "--from without --peer ended in $status"
peer away --scheduler 127.0.0.1:1 --peer prefill-0
[ $status = 75 ] || fail "--peer without a scheduler ended in $status"

kill "$prefill_pid"
wait "$prefill_pid" || true
knows_the_stop() { ask_scheduler /api/v1/agents | grep -q '"state":"stopped"'; }
wait_for 20 knows_the_stop || fail "the scheduler does not know that an agent was stopped"
peer gone.json --peer prefill-0 --from decode-0 --json
agrees gone.json
state_is gone.json peer_agent ok # decode-0
says "$work/gone.json" "prefill-0 (prefill, host .*) was stopped"
state_is gone.json peer_control wrong
[ $status = 1 ] || fail "an agent that is stopped is well"
echo "doctor: this host and 3 others, and pairs of hosts: 1 passed, 0 failed"
