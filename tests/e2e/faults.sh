#!/bin/sh
# Goal: whatever strikes real agents, engines, cables and hosts, no byte is wrong, no request waits for ever and no
# page is lost. Method: rounds of one replay each on fresh agents in two network namespaces, struck by one fault,
# every fifth by two or three; tests/README.md says what is judged.
#
#   sh tests/e2e/faults.sh --rounds 10 --seed 1 --json FILE      --help names the other options
#
# All runs in namespaces of its own (processes, mounts, networks), which end with it.
set -eu
root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
KVRAIL_BIN_DIR=${KVRAIL_BIN_DIR:-$root/build/release/bin}
PATH=$PATH:/usr/sbin:/sbin
export KVRAIL_BIN_DIR PATH
for command in python3 ip tc nft curl setpriv unshare nsenter; do
    command -v $command >/dev/null || { echo "there is no $command" >&2 && exit 77; }
done
for program in kvrail kvrail-scheduler prefill-agent decode-agent; do
    [ -x "$KVRAIL_BIN_DIR/$program" ] || { echo "$program was not built" >&2 && exit 77; }
done
if ! unshare --mount --net --pid --fork --mount-proc true; then
    echo "no namespaces can be made here" >&2
    exit 77
fi
setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc python3 -B "$root/tests/e2e/faults/main.py" "$@" &
spaces=$!
# unshare takes no signal while it waits: its child does.
pass_on() {
    child=$(cat "/proc/$spaces/task/$spaces/children")
    kill -TERM "${child% }" 2>/dev/null || true
}
trap pass_on INT TERM
while :; do
    status=0
    wait $spaces || status=$?
    kill -0 $spaces 2>/dev/null || exit $status
done
