#!/bin/sh
# Many simulated worlds: none may break a rule, every kind of fault must strike while bytes are on their
# way, and engines must have regions in the memory of others. KVRAIL_SCALE (percent) runs fewer worlds,
# KVRAIL_CAMPAIGN=1 many more; a sanitizer's build runs 500, whatever the scale.
set -eu

seeds=4000
if [ "${KVRAIL_CAMPAIGN:-0}" = 1 ]; then
    seeds=1000000
fi
seeds=$((seeds * ${KVRAIL_SCALE:-100} / 100))
if [ -n "${KVRAIL_SANITIZE:-}" ]; then
    seeds=500
fi

json=$("$KVRAIL_BIN_DIR/kvrail" sim --seeds "1:$seeds" --json) || {
    echo "$json"
    exit 1
}
echo "$json"
json=$(echo "$json" | tr -d ' \n')

# number NAME: of the JSON's first level. counts NAME: "fault count" a line, of an object in it.
number() { echo "$json" | sed -n "s/.*\"$1\":\([0-9]*\).*/\1/p"; }
counts() { echo "$json" | sed -n "s/.*\"$1\":{\([^}]*\)}.*/\1/p" | tr -d '"' | tr ',:' '\n '; }

if [ "$(number transfers)" -lt $((4 * seeds)) ]; then
    echo "fewer than 4 transfers a seed"
    exit 1
fi
if [ "$(number lodgers)" -lt "$seeds" ]; then
    echo "fewer than one region a seed lies in the memory of another"
    exit 1
fi
# In few seeds the rarest fault may miss the bar by chance.
[ "$seeds" -ge 4000 ] || exit 0
[ -n "$(counts mid_transfer)" ] || { echo "no fault is counted"; exit 1; }
counts mid_transfer | while read -r fault count; do
    if [ $((200 * count)) -lt "$seeds" ]; then
        echo "$fault struck in mid transfer in $count of $seeds seeds: fewer than one in two hundred"
        exit 1
    fi
done
