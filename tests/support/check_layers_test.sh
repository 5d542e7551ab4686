#!/bin/sh
# Goal: the layer check passes what is allowed and fails on each kind of forbidden include and on logs
# above debug. Method: a tree of one file, checked by the script that the build runs. Argument: the
# cmake to use.
set -eu

cmake=${1:-cmake}
root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# try FILE TEXT: passes if the check accepts it. TEXT is a header, <header> or a call of the log.
try() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/$(dirname "$1")"
    case $2 in
    *\(*) echo "    $2;" ;;
    \<*) echo "#include $2" ;;
    *) echo "#include \"$2\"" ;;
    esac >"$work/tree/$1"
    "$cmake" -DROOT="$work/tree" -P "$root/common/cmake/check_layers.cmake" >/dev/null 2>&1
}

allowed() {
    try "$1" "$2" || { echo "$1 may have $2, but was refused" && exit 1; }
}

forbidden() {
    ! try "$1" "$2" || { echo "$1 may not have $2, but was accepted" && exit 1; }
}

allowed common/base/log.c base/clock.h
allowed common/kv/plan.c base/types.h
allowed common/fabric/region.c kv/layout.h
allowed common/fabric/region.c device/device.h
allowed common/agent/agent.c fabric/fabric.h
allowed prefill-agent/main.c prefill-agent/outbound.h
allowed common/tools/sim/sim.c decode-agent/inbound.h
allowed common/tools/sim/sim.c tools/sim/sim_world.h
allowed common/tools/sim/sim.c tools/post_rig.h
allowed common/tools/replay/replay.c tools/scheduler_get.h
allowed common/tools/bench/bench_push.c client/kvrail.h
allowed tests/unit/test_plan.c tests/support/check.h
allowed tests/unit/test_data_path.c tools/bench/bench_ping.h
allowed scheduler/main.c trace/event.h
allowed common/client/client.c wire/engine_message.h
allowed common/client/examples/prefill.c engine.h

forbidden common/base/log.c kv/plan.h
forbidden common/kv/plan.c wire/message.h
forbidden common/wire/message.c kv/plan.h
forbidden common/device/device_host.c fabric/fabric.h
forbidden common/fabric/region.c trace/event.h
forbidden common/fabric/region.c agent/agent.h
forbidden prefill-agent/main.c decode-agent/inbound.h
forbidden decode-agent/main.c prefill-agent/outbound.h
forbidden scheduler/main.c fabric/fabric.h
forbidden common/client/client.c kv/plan.h
forbidden common/client/examples/prefill.c base/types.h
forbidden common/agent/agent.c prefill-agent/outbound.h
forbidden common/tools/sim/sim.c tests/support/check.h
forbidden common/tools/sim/sim.c tools/bench/bench_ping.h
forbidden common/tools/bench/bench_push.c tools/replay/model.h
forbidden common/tools/bench/bench_push.c decode-agent/land.h
forbidden common/tools/replay/replay.c tools/sim/sim_host.h
forbidden common/tools/replay/replay.c prefill-agent/outbound.h
forbidden common/tools/main.c tools/bench/bench.h
forbidden prefill-agent/main.c tools/post_rig.h
forbidden common/kv/plan.c plan.h
forbidden common/kv/plan.c ../wire/message.h
forbidden common/kv/sub/plan.c common/kv/plan.h

allowed common/kv/plan.c '<stdint.h>'
allowed prefill-agent/push.c '<stdatomic.h>'
allowed prefill-agent/main.c '<uv.h>'
allowed common/wire/channel.c '<uv.h>'
forbidden common/kv/plan.c '<uv.h>'
forbidden common/kv/plan.h '<pthread.h>'
forbidden common/wire/session.c '<uv.h>'
forbidden common/wire/session_queue.c '<time.h>'
forbidden common/agent/core/engines.c '<sys/mman.h>'
forbidden common/device/staging_pool.c '<pthread.h>'
forbidden common/fabric/device_path.c '<rdma/fabric.h>'
forbidden prefill-agent/push.c '<time.h>'
forbidden decode-agent/machine.c '<unistd.h>'

allowed common/wire/channel_listener.c wire/channel_parts.h
allowed common/agent/agent_rails.c agent/agent_state.h
allowed tests/unit/test_agent_rails.c agent/agent_state.h
allowed tests/support/state_table.c tests/support/state_table.h
forbidden common/wire/session.c wire/channel_parts.h
forbidden common/agent/engine/engine_port.c agent/agent_state.h
forbidden tests/unit/test_peer.c agent/agent_state.h
forbidden tests/support/session_world.c wire/channel_parts.h
forbidden prefill-agent/main.c rail_group/rail_group_state.h

allowed common/agent/agent_peers.c 'kvr_log_info("up")'
allowed common/fabric/region.c 'kvr_log_debug("mapped")'
allowed prefill-agent/main.c 'kvr_log_info("ready")'
forbidden common/fabric/region.c 'kvr_log_info("mapped")'
forbidden common/agent/peer/peer.c 'kvr_log_warning("lost")'
forbidden common/base/port_file.c 'kvr_log_failure(KVR_LOG_ERROR, "file", error)'
