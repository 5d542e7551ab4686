#!/bin/sh
# Goal: pages that no card can reach arrive whole, through staging memory that is smaller than they are. Pages
# that cannot be staged are refused with a sentence. Copies that fail end in a reason and never in wrong
# bytes. On one host the pages of devices need no staging. Argument: the provider. Method: agents with an
# emulated device, and a replay with engines that register their pages as the device's.
set -eu
provider=${1:?provider}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail-scheduler prefill-agent decode-agent kvrail
start_scheduler

. "$KVRAIL_ROOT_DIR/tests/support/device_agents.sh"

agents "--device emulated --staging-memory 3M --fragments direct" "--device emulated --staging-memory 3M"
good both
good source --pages shuffled --chunk-tokens 512
good target --page-tokens 1 --kv-bytes-per-token 1k --pool-bytes 16M
good none
# Over many allocations side by side, at both ends and at one.
good both --allocation-bytes 64k --pool-bytes 64M
good source --allocation-bytes 68k --pool-bytes 64M --pages shuffled
good target --allocation-bytes 2M --pool-bytes 64M
for said in 1024 964; do
    grep -q "region 'source' of device 0 lies over $said allocations" "$work/prefill.log" ||
        fail "the source's region did not lie over $said allocations"
done
grep -q 'device 0 (emulated) is staged by 3 MiB' "$work/prefill.log" || fail "the source staged nothing"
grep -q 'device 0 (emulated) is staged by 3 MiB' "$work/decode.log" || fail "the target staged nothing"
# On one host, where both agents see each other's device, the target moves the pages itself.
host=host staged=32
[ "$provider" = tcp ] || { host=local && staged=16; } # chosen by itself
for role in source target; do
    moved $role staged $staged
    moved $role $host $((56 - staged))
done

# Cards that reach device memory by themselves get the region, and nothing is staged. Agents of one host use
# theirs too, and no log complains about another way.
agents "--device emulated-direct --require-gpudirect" "--device emulated-direct"
: >"$work/prefill.log"
: >"$work/decode.log"
good both
moved source hmem 8
moved target hmem 8
! grep -q 'is staged by' "$work/prefill.log" "$work/decode.log" || fail "what cards reach was staged"
! grep -q 'cards carry the pages of a region' "$work/prefill.log" "$work/decode.log" ||
    fail "the log complains about a way that does not exist here"
agents "--device emulated-direct" "--device emulated --digest full"
replay --requests 1 --device-memory both && fail "pages that the agent cannot read were hashed"
grep -q 'failures *unsupported 1' "$work/replay.log" || fail "the replay got no reason"

# Digests cover the gathered bytes and the arrived bytes.
agents "--device emulated --digest full" "--device emulated --staging-memory 3M"
good both

agents "--device emulated --device-failures 40" "--device emulated --device-failures 40"
replay --requests 30 --device-memory both && fail "copies failed, and the replay did not"
[ "$(figure failed)" -gt 0 ] || fail "no request failed"
expect bytes_wrong 0
expect pages_written_late 0
grep -q copy_failed "$work/replay.log" "$work/figures.json" || fail "no engine got copy_failed"

# refused AGENT TEXT: the replay cannot begin, and says it.
refused() {
    replay --requests 1 --device-memory "$1" && fail "$2 was not refused"
    grep -q "$2" "$work/replay.log" || fail "'$2' is not in: $(tail -n 3 "$work/replay.log")"
}
agents "--device none" "--device emulated --require-gpudirect"
refused source 'takes no device memory'
refused target 'require-gpudirect: rail [a-z]* does not reach device memory: dmabuf, hmem: its provider'
agents "--device emulated --staging-memory 2M --chunk-bytes-max 4M" "--device emulated"
refused source 'is less than two writes'
