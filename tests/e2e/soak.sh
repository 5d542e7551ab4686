#!/bin/sh
# Goal: agents that live long keep their memory, their descriptors and all that they lend, whatever strikes. Method:
# one prefill-agent and two decode-agents carry a mixed load for a long time: replays of many shapes, engines that
# are killed, requests that are cancelled or abandoned, and faults; tests/README.md says what is judged.
#
#   sh tests/e2e/soak.sh --minutes 120 --seed 1 --json FILE      --help names the other options
set -eu
root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$root/tests/e2e/faults/in_spaces.sh"
status=0
in_spaces soak.py "$@" || status=$?
[ "$status" != 77 ] || echo "soak: 0 passed, 0 failed, 1 skipped"
exit "$status"
