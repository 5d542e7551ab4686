#!/bin/sh
# Goal: there is a page of the manual for each program and command, without a warning of a formatter, and it has
# the options of --help. Arguments: the folder of the pages, and the programs with a page of section 8.
set -eu
man=${1:?usage: manual_test.sh FOLDER PROGRAM…}
shift
fail() { echo "manual: $*"; exit 1; }

for page in kvrail kvrail-status kvrail-why kvrail-bench kvrail-bench-push kvrail-certificates-issue kvrail-trace-synth; do
    [ -s "$man/$page.1" ] || fail "there is no page $page.1"
done
for program in "$@"; do
    [ -s "$man/$program.8" ] || fail "there is no page $program.8"
done

# Every option that --help names is in the page.
same_options() {
    page=$1
    shift
    "$KVRAIL_BIN_DIR"/"$@" --help | sed -n 's/^  --\([[a-z-]*\]*[a-z-]*\).*/\1/p' | sed 's/^\[no-\]//' | sort >"$work/help"
    sed -n 's/^\\fB\\-\\-\(.*\)\\fR.*/\1/p' "$man/$page" | sed 's/\\fR.*//; s/\\-/-/g; s/^\[no-\]//' | sort >"$work/page"
    [ "$(wc -l <"$work/help")" -ge 4 ] || fail "$* --help names no options"
    cmp "$work/help" "$work/page" || fail "$page has other options than $* --help"
}
work=$(mktemp -d /tmp/kvrail-manual-XXXXXX)
trap 'rm -rf "$work"' EXIT
same_options kvrail-status.1 kvrail status
same_options kvrail-bench-push.1 kvrail bench push
for program in "$@"; do
    same_options "$program.8" "$program"
done

checked=
if command -v mandoc >/dev/null; then
    mandoc -Tlint -W warning "$man"/*.[18] >"$work/lint" || fail "mandoc: $(head -5 "$work/lint")"
    checked="mandoc"
fi
if command -v groff >/dev/null; then
    for page in "$man"/*.[18]; do
        groff -ww -k -man -Tutf8 -z "$page" 2>"$work/lint" || fail "groff: $page"
        [ ! -s "$work/lint" ] || fail "groff: $page: $(head -5 "$work/lint")"
    done
    checked="$checked groff"
fi
[ -n "$checked" ] || { echo "manual: skipped, there is neither mandoc nor groff"; exit 77; }
echo "manual: $(ls "$man"/*.[18] | wc -l) pages, checked by $checked"
