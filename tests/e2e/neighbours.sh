#!/bin/sh
# Goal: pages of devices on one host go from device to device without staging, every byte right. Where one
# agent cannot copy so, the pages are staged and the log gives the reason. Copies that fail end in a reason
# and never in wrong bytes. Argument: the provider. Method: agents with an emulated device, and a replay
# with engines that register their pages as the device's; the scheduler counts the paths.
set -eu
provider=${1:?provider}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent kvrail
start_scheduler

. "$KVRAIL_ROOT_DIR/tests/support/device_agents.sh"

agents "--device emulated" "--device emulated"
good both
good both --pages shuffled --chunk-tokens 512
good both --page-tokens 1 --kv-bytes-per-token 1k --pool-bytes 16M
# Over hundreds of allocations, which the source's agent hands on to the target's: more than one packet has.
good both --allocation-bytes 64k --pool-bytes 64M
grep -q "region 'source' of device 0 lies over 1024 allocations" "$work/prefill.log" ||
    fail "the source's region did not lie over many allocations"
for role in source target; do
    moved $role local 32
    moved $role staged 0
done
grep -q 'agents on this host with a device that sees it copy its pages themselves' "$work/prefill.log" ||
    fail "the source does not say that it lends"

# What is hashed goes through memory that a processor reads.
agents "--device emulated --digest full" "--device emulated"
good both
moved target local 32
moved target staged 8

# The target's device does not see the source's: the agent probes and logs it once for each replay's engines.
agents "--device emulated" "--device emulated-blind"
good both
good both
moved target local 32
moved target staged 24
[ "$(grep -c 'is not seen from here, and staged' "$work/decode.log")" -eq 2 ] ||
    fail "the target says '$(grep 'is not seen' "$work/decode.log")'"

agents "--device emulated" "--device emulated --device-failures 40"
replay --requests 30 --device-memory both && fail "moves failed, and the replay did not"
[ "$(figure failed)" -gt 0 ] || fail "no request failed"
expect bytes_wrong 0
expect pages_written_late 0
grep -q copy_failed "$work/replay.log" "$work/figures.json" || fail "no engine got copy_failed"
