#!/bin/sh
# Goal: whatever strikes real agents, engines, cables and hosts, no byte is wrong, no request waits for ever and no
# page is lost. Method: rounds of one replay each on fresh agents in two network namespaces, struck by one fault,
# every fifth by two or three; tests/README.md says what is judged.
#
#   sh tests/e2e/faults.sh --rounds 10 --seed 1 --json FILE      --help names the other options
set -eu
root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
. "$root/tests/e2e/faults/in_spaces.sh"
in_spaces main.py "$@"
