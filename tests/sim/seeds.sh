#!/bin/sh
# Many simulated worlds, none of which may show anything wrong. KVRAIL_SCALE (percent) makes them
# fewer, KVRAIL_CAMPAIGN=1 many.
set -eu

seeds=2000
if [ "${KVRAIL_CAMPAIGN:-0}" = 1 ]; then
    seeds=100000
fi
seeds=$((seeds * ${KVRAIL_SCALE:-100} / 100))
exec "$KVRAIL_BIN_DIR/kvrail" sim --seeds "1:$seeds" --json
