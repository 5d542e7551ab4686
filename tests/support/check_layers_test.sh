#!/bin/sh
# Goal: the layer check passes what is allowed and fails on each kind of forbidden include. Method: a
# tree of one file, checked by the script that the build runs. Argument: the cmake to use.
set -eu

cmake=${1:-cmake}
root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# try FILE INCLUDE: is it let through?
try() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/$(dirname "$1")"
    echo "#include \"$2\"" >"$work/tree/$1"
    "$cmake" -DROOT="$work/tree" -P "$root/common/cmake/check_layers.cmake" >/dev/null 2>&1
}

allowed() {
    try "$1" "$2" || { echo "$1 may include $2, but was refused" && exit 1; }
}

forbidden() {
    ! try "$1" "$2" || { echo "$1 may not include $2, but was let through" && exit 1; }
}

allowed common/base/log.c base/clock.h
allowed common/kv/plan.c base/types.h
allowed common/fabric/region.c kv/layout.h
allowed common/fabric/region.c device/device.h
allowed common/agent/agent.c fabric/fabric.h
allowed prefill-agent/main.c prefill-agent/outbound.h
allowed common/tools/sim.c decode-agent/inbound.h
allowed tests/unit/test_plan.c tests/support/check.h
allowed scheduler/main.c trace/event.h
allowed common/client/client.c wire/engine_message.h
allowed common/client/examples/prefill.c engine.h

forbidden common/base/log.c kv/plan.h
forbidden common/kv/plan.c wire/message.h
forbidden common/wire/message.c kv/plan.h
forbidden common/device/device_host.c fabric/fabric.h
forbidden common/fabric/region.c agent/agent.h
forbidden prefill-agent/main.c decode-agent/inbound.h
forbidden decode-agent/main.c prefill-agent/outbound.h
forbidden scheduler/main.c fabric/fabric.h
forbidden common/client/client.c kv/plan.h
forbidden common/client/examples/prefill.c base/types.h
forbidden common/agent/agent.c prefill-agent/outbound.h
forbidden common/tools/sim.c tests/support/check.h
forbidden common/kv/plan.c plan.h
forbidden common/kv/plan.c ../wire/message.h
forbidden common/kv/sub/plan.c common/kv/plan.h
