#!/bin/sh
# Goal: an engine of a prefill-agent cannot disturb the transfers of another engine of that agent where the
# target copies by itself (rules 9 and 11): revocation words are each engine's own. Method: one engine's
# request is held behind its first layer. Meanwhile word_writer (tests/support/word_writer.c), an engine of
# the same agent, writes all over the words that it was given. The request goes on to its end.
set -eu
provider=${provider:-local}
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need ../tests/pair ../tests/word_writer
start_all

mkfifo "$work/go_on" "$work/stay"
"$bin/../tests/pair" "$work/source.sock" "$work/target.sock" "$source_agent" wait <"$work/go_on" \
    >>"$work/pair.log" 2>&1 &
pair=$!
started_pids="$started_pids $pair"
exec 4>"$work/go_on"
wait_for 30 file_has "$work/pair.log" held || fail "no layer came"

"$bin/../tests/word_writer" "$work/source.sock" <"$work/stay" >>"$work/writer.log" 2>&1 4>&- &
writer=$!
started_pids="$started_pids $writer"
exec 5>"$work/stay"
wait_for 30 file_has "$work/writer.log" written || fail "nothing was written over"

exec 4>&-
status=0
wait "$pair" || status=$?
[ $status = 0 ] || fail "pair ended in $status"
file_has "$work/pair.log" "target done" || fail "another engine has disturbed the transfer"
[ "$provider" = local ] || moved target local 1
exec 5>&-
wait "$writer" || fail "the writer ended in $?"
echo "e2e.words: passed"
