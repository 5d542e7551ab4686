#!/bin/sh
# Goal: a replay finds each fault of agents, and reports nothing else. Method: instead of the agents runs
# copy_agent, which moves pages by memcpy and breaks one promise on request.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail ../tests/copy_agent

# with_agent FAULT ARGUMENT…: a replay against a fresh agent; its exit status in $replay_status.
with_agent() {
    fault=$1
    shift
    rm -f "$work"/*.sock "$work/replay.log"
    start copy "$bin/../tests/copy_agent" "$work/source.sock" "$work/target.sock" "$fault"
    agent_pid=$started
    await copy "$work/target.sock"
    replay_status=0
    replay --requests 40 "$@" || replay_status=$?
    kill "$agent_pid" 2>/dev/null || true
    wait "$agent_pid" 2>/dev/null || true
}

good() {
    with_agent "" "$@"
    [ "$replay_status" = 0 ] || fail "$* ended in $replay_status"
    expect verified 40
    expect failed 0
    expect bytes_wrong 0
    [ "$(figure bytes)" = $(($(figure tokens_moved) * $(figure kv_bytes_per_token))) ] ||
        fail "bytes are not tokens × bytes per token"
}

# found FAULT TEXT ARGUMENT…: exit 1, and the text was printed. Early and late bytes are reported as such
# only if the page is looked at in time, which a busy machine may prevent: some tries are allowed.
found() {
    fault=$1
    text=$2
    shift 2
    with_agent "$fault" "$@"
    for _ in 1 2 3 4 5 6 7 8 9; do
        case $fault in
        early | late) grep -q -- "$text" "$work/replay.log" || with_agent "$fault" "$@" ;;
        esac
    done
    [ "$replay_status" = 1 ] || fail "'$fault' $* ended in $replay_status"
    in_log "$text"
}

good
[ "$(figure bytes)" = "$(figure bytes_verified)" ] || fail "not every byte was verified"
good --verify sampled

# journaled TEXT: lines of the journal with it.
journaled() { grep -c -- "$1" "$work/journal" || true; }
good --no-prefix-cache --journal "$work/journal"
for text in '"engine": "source", "what": "opened"' '"engine": "target", "what": "opened"' \
    '"source_free".*"status": "ok", "terminal": true' '"done".*"status": "ok", "terminal": true'; do
    [ "$(journaled "$text")" = 40 ] || fail "the journal has $text $(journaled "$text") times, not 40"
done
[ "$(journaled '"what": "finished", "pages": 0}')" = 2 ] || fail "the journal does not say that all pages are free"
good --pages shuffled --page-tokens 64 --chunk-tokens 1000 --model deepseek-v3
good --no-prefix-cache --pages fresh --model qwen3-235b-a22b --layers 3 --kv-bytes-per-token 1536
expect tokens_skipped 0
good --speed 200 --concurrency 3 --prefill-tokens-per-s 20000

found early 'wrong: request 20 .* layer 0, part K'
found late 'was written'
found flip 'wrong: request 20 .* layer 1, part K'
expect failures.wrong_bytes 1
found misplace 'right for token'
found count 'COUNTS DIFFER'
found no_tail 'request 20 is DONE without its tail'
found fail 'rail_failed'
found die 'lost its agent' --journal "$work/journal"
[ "$(journaled '"detached"')" -gt 0 ] || fail "the journal does not say that the agent is gone"
expect_most settle_ms 3000
for kind in page layer swap; do
    found "" "wrong: request 21 .* layer" --corrupt $kind
    expect failed 1
    found "" "wrong: request 21 .* layer" --corrupt $kind --verify sampled
done

# Without a listener, and with options that are refused.
rm -f "$work"/*.sock
status=0
replay --requests 1 || status=$?
[ "$status" = 75 ] || fail "without agents it ended in $status"
for arguments in "--page-tokens 17" "--speed fast" "--kv-bytes-per-token 100" "--pool-bytes 4G" \
    "--trace /nowhere" "--corrupt page --verify none" "--model gpt-2" "--json /nowhere/figures.json" \
    "--pid-file /nowhere/pids" "--journal /nowhere/journal"; do
    status=0
    # shellcheck disable=SC2086
    replay $arguments || status=$?
    [ "$status" = 2 ] || fail "$arguments ended in $status"
done
