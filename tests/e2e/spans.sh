#!/bin/sh
# Goal: the scheduler shows when each layer of a transfer passed its agents and what each rail carried: of all
# transfers, of the slow ones alone, or of none, as the agents' options say.
# Method: real agents and replays; every timeline is read, and its sums are compared with its transfer.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
for program in curl python3; do
    command -v $program >/dev/null || { echo "there is no $program" >&2; exit 77; }
done
layers=8

# answer PATH: what the API says.
answer() { ask_scheduler "/api/v1/$1"; }

# check WORD COUNT: the COUNT transfers that are done have a timeline with that word, and what it promises.
check() {
    wait_for 60 has_done "$2" || fail "not $2 transfers are done: $(cat "$work/transfers")"
    mkdir -p "$work/timelines"
    rm -f "$work/timelines/"*
    for id in $(python3 -c 'import json, sys
for one in json.load(sys.stdin)["transfers"]: print(one["id"])' <"$work/transfers"); do
        answer "transfers/$id/timeline" >"$work/timelines/$id"
    done
    python3 - "$work/transfers" "$work/timelines" "$1" "$layers" <<'END' || fail "a timeline is wrong"
import json, sys

transfers = json.load(open(sys.argv[1]))["transfers"]
for transfer in transfers:
    timeline = json.load(open(sys.argv[2] + "/" + transfer["id"]))
    assert timeline["spans"] == sys.argv[3], timeline
    passed = timeline["layers"]
    if timeline["spans"] != "sampled":
        assert passed == [], timeline
        assert all(rail["writes"] is None for side in timeline["sides"] for rail in side["rails"]), timeline
    if timeline["spans"] != "sampled" or transfer["chunks"] == 0:
        continue
    assert [one["layer"] for one in passed] == list(range(int(sys.argv[4]))), passed
    for one in passed:
        assert one["ready_seconds"] <= one["posted_seconds"], one
        assert one["landed_seconds"] <= one["delivered_seconds"], one
        assert one["ready_seconds"] <= one["delivered_seconds"], one
    for side in timeline["sides"]:
        end = side["stages"][-1]["seconds"]
        last = max(one["posted_seconds"] if side["role"] == "source" else one["delivered_seconds"] for one in passed)
        assert last <= end, (last, end)
        rails = side["rails"]
        retries = sum(one["retries"] for one in rails)
        assert sum(one["bytes"] for one in rails) == transfer["bytes"] or retries > 0, (rails, transfer)
        assert sum(one["writes"] for one in rails) == transfer["chunks"] + retries, (rails, transfer)
print("checked", len(transfers))
END
}

# has_done COUNT: the first so many, of all that there are.
has_done() {
    answer "transfers?state=done&limit=500" >"$work/transfers"
    [ "$(grep -o '"id":' "$work/transfers" | wc -l)" = "$1" ]
}

# moves SEED: ten requests, each of other tokens.
moves() {
    replay --requests 10 --concurrency 2 --layers $layers --pool-bytes 16M --pages fresh --seed "$1" ||
        fail "the replay failed"
    expect verified 10
}

# again OPTIONS: the same agents with other options, and a scheduler that knows nothing.
again() {
    for pid in "$prefill_pid" "$decode_pid" "$scheduler_pid"; do
        kill "$pid"
        wait "$pid" || fail "a program did not end well"
    done
    rm -rf "$work/scheduler"
    prefill_options=$1
    decode_options=$1
    start_all
}

prefill_options="--spans-every 1"
decode_options=$prefill_options
start_all
moves 1
check sampled 10
tool why --scheduler "$scheduler" "$id" >"$work/why" 2>&1 || fail "kvrail why: $(cat "$work/why")"
grep -q "^  The slowest layer is [0-7]: [0-9.]* ms, [0-9.]* ms until its last write was posted, " "$work/why" ||
    fail "kvrail why names no slowest layer: $(cat "$work/why")"

again "--spans-every 1000000000 --spans-slow 0s"
moves 2
check sampled 10

again "--spans-every 1000000000 --spans-slow 1h"
moves 3
check "not sampled" 10

again "--spans-every 0 --spans-slow 0s"
moves 4
check "not sampled" 10
echo "e2e.spans: passed"
