#!/bin/sh
# Goal: tests/support/words.py finds each kind of violation, with its line, and accepts plain sentences.
# Method: files of one violation in a folder of their own.
set -eu

root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v python3 >/dev/null || { echo "there is no python3" && exit 77; }

# try FILE TEXT: the text as printf's format.
try() {
    # shellcheck disable=SC2059
    printf "$2" >"$work/$1"
    python3 "$root/tests/support/words.py" "$work/$1" >"$work/output" 2>&1
}

accepted() {
    try "$1" "$2" || { echo "$2: refused" && cat "$work/output" && exit 1; }
}

# refused FILE TEXT LINE RULE
refused() {
    ! try "$1" "$2" || { echo "$2: accepted" && exit 1; }
    grep -q "$1:$3: .*$4" "$work/output" ||
        { echo "$2: '$4' in line $3 is not in this:" && cat "$work/output" && exit 1; }
}

long=$(seq 36 | sed 's/.*/word/' | tr '\n' ' ')
cell=$(seq 70 | sed 's/.*/abc/' | tr '\n' ' ')
paragraph=$(seq 9 | sed 's/$/ is one line\\n/' | tr -d '\n')

accepted a.c '/* The page stays until the write ends. */\nint who; /* an int */\n'
refused a.c 'int x;\n/* The page stays until nobody\n * writes to it. */\n' 2 nobody
refused a.c 'int x;\n// The page\n// of a transfer whose job ended.\n' 3 whose
refused a.c 'log("a job " NUMBER\n    " that is told its end");\n' 2 told
refused a.h '/* This is what is to stop after the write. */\n' 1 'what is to'
refused a.h "/* $long. */\n" 1 '36 words'
accepted a.h '/*   one.c  the first file of the map\n *   two.c  the second file\n *   row | of | a table */\n'
refused a.sh 'x=1\n# Whoever waits for it goes on.\n' 2 Whoever
refused a.sh 'fail "the job told the target its end"\n' 1 told
refused CMakeLists.txt 'set(a b)\n# The list of those who include it.\n' 2 who
accepted a.md '# Title\n\nA short line.\n\n```\nnobody knows who\n```\n'
refused a.md 'One.\n\nThe peer told us about it.\n' 3 told
refused a.md "# Title\n\n$paragraph" 3 'paragraph of 9 lines'
refused a.md "| a | b |\n|---|---|\n| a | $cell |\n" 3 'table cell'
refused a.md "A line $(seq 60 | sed 's/.*/x/' | tr -d '\n') of more $(seq 60 | sed 's/.*/x/' | tr -d '\n')\n" 1 columns
