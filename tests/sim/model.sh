#!/bin/sh
# The model of a host through the command: every case is printed, the goal is met, and an unknown model
# is refused.
set -eu

kvrail=$KVRAIL_BIN_DIR/kvrail
json=$("$kvrail" sim --model p5 --json)

# share CASE PAGE_BYTES: prints the share in thousandths.
share() {
    echo "$json" | tr -d ' \n' | tr '{' '\n' |
        sed -n "s/.*\"case\":\"$1\",\"page_bytes\":$2,.*\"share\":\([0-9.]*\),.*/\1/p" |
        awk '{printf "%d", $1 * 1000}'
}

[ "$(echo "$json" | grep -c '"case"')" -eq 18 ]
[ "$(share all 65536)" -ge 971 ] || {
    echo "64 KiB pages get $(share all 65536) of 1,000, and 971 are promised"
    exit 1
}
[ "$(share without_batch 16384)" -lt "$(share all 16384)" ]
status=0
"$kvrail" sim --model p6 2>/dev/null || status=$?
[ "$status" -eq 2 ]
echo "sim.model: passed, $(share all 65536) of 1,000 at 64 KiB"
