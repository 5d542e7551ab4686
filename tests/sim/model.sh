#!/bin/sh
# The model of a host through the command: every case is printed, the goal is met, and an unknown model
# is refused.
set -eu

kvrail=$KVRAIL_BIN_DIR/kvrail
json=$("$kvrail" sim --model p5 --json)

# number NAME CASE PAGE_BYTES: prints that number in thousandths.
number() {
    echo "$json" | tr -d ' \n' | tr '{' '\n' |
        sed -n "s/.*\"case\":\"$2\",\"page_bytes\":$3,.*\"$1\":\([0-9.]*\),.*/\1/p" |
        awk '{printf "%d", $1 * 1000}'
}
share() {
    number share "$@"
}

[ "$(echo "$json" | grep -c '"case"')" -eq 18 ]
[ "$(share all 65536)" -ge 971 ] || {
    echo "64 KiB pages get $(share all 65536) of 1,000, and 971 are promised"
    exit 1
}
[ "$(share without_batch 16384)" -lt "$(share all 16384)" ]
p5=$(share all 65536)
# Of p5en's cards others had 91 % of what they are sold as; the agents leave none of that.
json=$("$kvrail" sim --model p5en --json)
[ "$(echo "$json" | grep -c '"case"')" -eq 18 ]
[ $(($(share all 65536) * 100)) -ge $((97 * $(number ceiling all 65536))) ] || {
    echo "64 KiB pages get $(share all 65536) of $(number ceiling all 65536) on a p5en"
    exit 1
}
"$kvrail" sim --model p5en | grep -q '^A p5en host, .* 8 groups of 2 cards of 200 Gb/s'
status=0
"$kvrail" sim --model p6 2>/dev/null || status=$?
[ "$status" -eq 2 ]
echo "sim.model: passed, $p5 and $(share all 65536) of 1,000 at 64 KiB"
