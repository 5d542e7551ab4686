#!/bin/sh
# Goal: engines and agents in containers of their own. Each of four processes has its own user, PID, mount,
# IPC and UTS namespaces; an engine shares a folder with its agent, and all share the network, as in two pods of
# one host. They attach, and every byte is right. An engine that is killed hands its pages back, and the other
# learns why. A killed agent is replaced, at the same path; then both are, with both engines.
# Method: unshare for containers; tests/support/lone.c for the engines, which check the bytes.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail prefill-agent decode-agent ../tests/lone
. "$KVRAIL_ROOT_DIR/tests/support/containers.sh"
mkdir "$work/pod-p" "$work/pod-d"
heartbeat=500ms # a busy machine is not taken for a dead peer

# in_pod POD NAME PROGRAM ARGUMENT…: in a container that sees the pod's folder as /mnt, and nothing else of $work.
in_pod() {
    pod=$work/$1 name=$2
    shift 2
    # shellcheck disable=SC2016 # expanded within
    contain "$name" 'mount --bind "$1" /mnt && mount -t tmpfs tmpfs "$2" && shift 2 && exec "$@"' "$pod" "$work" "$@"
}

start_agent_p() {
    rm -f "$work/pod-p/port" "$work/prefill.log"
    # shellcheck disable=SC2046 # a list of options
    in_pod pod-p prefill "$bin/prefill-agent" --name p --run-dir /mnt/agent --heartbeat $heartbeat \
        --listen "${source_agent:-127.0.0.1:0}" --port-file /mnt/port --provider "$provider" $(default_rails) \
        $(credentials prefill p)
    prefill=$inner prefill_outside=$started
    await prefill "$work/pod-p/port"
    await_ready prefill
    source_agent=127.0.0.1:$(cat "$work/pod-p/port")
}
start_agent_d() {
    rm -f "$work/decode.log"
    # shellcheck disable=SC2046
    in_pod pod-d decode "$bin/decode-agent" --name d --run-dir /mnt/agent --heartbeat $heartbeat \
        --provider "$provider" $(default_rails) $(credentials decode d)
    decode=$inner decode_outside=$started
    await_ready decode
}
# await_ready NAME: its socket may be a dead agent's.
await_ready() {
    wait_for 30 is_ready "$1" || fail "the $1-agent did not get ready"
    is_contained "$started" || fail "the $1-agent ended while it started"
}
is_ready() { grep -qs ' is ready: ' "$work/$1.log" || not is_contained "$started"; }
# kill_agents OUTSIDE…: by -9; gone when this returns.
kill_agents() {
    for agent in "$@"; do
        kill -9 "$(inner_of "$agent")"
    done
    for agent in "$@"; do
        gone "$agent"
    done
}

# source_engine REQUEST LAYERS: publishes; target_engine REQUEST: fetches it.
source_engine() {
    rm -f "$work/source.log"
    in_pod pod-p source "$bin/../tests/lone" source /mnt/agent/p.sock "$1" "$2"
    source=$inner source_outside=$started
    wait_for 20 file_has "$work/source.log" "generation " || fail "the source did not publish $1"
}
target_engine() {
    rm -f "$work/target.log"
    in_pod pod-d target "$bin/../tests/lone" target /mnt/agent/d.sock "$1" "$source_agent" \
        "$(sed -n 's/^generation //p' "$work/source.log")"
    target=$inner target_outside=$started
}
# ends ENGINE STATUS TEXT: source or target ends so, and says that.
ends() {
    gone "$(eval "echo \$$1_outside")"
    [ "$status" = "$2" ] || fail "the $1 engine ended in $status, not in $2"
    grep -Eq "$3" "$work/$1.log" || fail "the $1 engine did not say '$3'"
}
transfers() {
    source_engine "$1" 3
    target_engine "$1"
    ends target 0 '^0 bytes wrong$'
    ends source 0 '^source source_free ok'
}
# One layer is in, and the source computes no other.
half_way() {
    source_engine "$1" 1
    target_engine "$1"
    wait_for 20 file_has "$work/target.log" "layers 1" || fail "no layer of $1 came"
}

# probe STATUS TEXT: `kvrail alive` in the prefill-agent's pod ends so, and says that.
probe() {
    rm -f "$work/probe.log"
    in_pod pod-p probe "$bin/kvrail" alive --timeout 1s /mnt/agent/p.sock
    gone "$started"
    [ "$status" = "$1" ] || fail "the probe ended in $status, not in $1"
    grep -q "$2" "$work/probe.log" || fail "the probe did not say '$2'"
}

probe 75 'no agent can be reached'
start_agent_p
probe 0 'the agent answered after'
kill -STOP "$prefill"
probe 75 'did not answer'
kill -CONT "$prefill"
start_agent_d
transfers first

half_way source-dies
kill -9 "$source"
ends target 3 '^target failed engine_lost: '
gone "$source_outside"
half_way target-dies
kill -9 "$target"
ends source 3 '^source source_free engine_lost: '
gone "$target_outside"
transfers second

# The engine of the dead agent hears of it from its library, the other from its own agent.
half_way source-agent-dies
kill_agents "$prefill_outside"
ends source 3 '^source source_free agent_lost: the agent process ended'
ends target 3 '^target failed (peer_lost|revoked|peer_restarted): '
start_agent_p
transfers third
half_way target-agent-dies
kill_agents "$decode_outside"
ends target 3 '^target failed agent_lost: the agent process ended'
ends source 3 '^source source_free (peer_lost|peer_restarted): '
start_agent_d
transfers fourth

half_way both-die
kill_agents "$prefill_outside" "$decode_outside"
ends source 3 '^source source_free agent_lost: '
ends target 3 '^target failed agent_lost: '
start_agent_d
start_agent_p
transfers fifth

# Politely, as an orchestrator stops them.
kill "$prefill" "$decode"
for agent in "$prefill_outside" "$decode_outside"; do
    gone "$agent"
    [ "$status" = 0 ] || fail "SIGTERM ended an agent with $status"
done
echo "containers: $provider passed"
