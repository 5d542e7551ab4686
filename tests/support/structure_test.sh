#!/bin/sh
# Goal: the sources keep their sizes and maps (tests/support/structure.py), and the check fails on a file, a
# function or a struct that is too large and on a map that is wrong. Method: a tree of a few files.
set -eu

root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

command -v python3 >/dev/null || { echo "there is no python3" && exit 77; }
python3 "$root/tests/support/structure.py" "$root"

# Texts of several lines are printf's formats.
# shellcheck disable=SC2059
file() {
    mkdir -p "$work/$(dirname "$1")"
    shift_file=$1
    shift
    printf "$@" >"$work/$shift_file"
}

lines() {
    seq "$1" | sed "s/.*/$2/"
}

check() {
    python3 "$root/tests/support/structure.py" "$work" >"$work/output" 2>&1
}

accepted() {
    check || { echo "$1: refused" && cat "$work/output" && exit 1; }
}

refused() {
    ! check || { echo "$1: accepted" && exit 1; }
    grep -q -- "$2" "$work/output" || { echo "$1: '$2' is not in this:" && cat "$work/output" && exit 1; }
}

rm -rf "$work" && mkdir "$work"
file prefill-agent/small.c 'int small(void)\n{\n%s\n}\n' "$(lines 70 '    call();')"
accepted "a function of 70 lines"
file prefill-agent/small.c 'int small(void)\n{\n%s\n}\n' "$(lines 71 '    call();')"
refused "a function of 71 lines" "function small: 71"
file tests/support/structure_known.txt 'function small 71\n'
accepted "a function of 71 lines that is known"
file tests/support/structure_known.txt 'function other 71\n'
file prefill-agent/small.c 'int small;\n'
accepted "a known function that is gone"
grep -q "not needed" "$work/output"
file scheduler/long.c '%s\n' "$(lines 601 'int x;')"
refused "a file of 601 lines" "lines scheduler/long.c: 601"
rm "$work/scheduler/long.c"

file common/rail_group/a.h 'struct part {\n%s\n};\n' "$(lines 30 '    int x;')"
accepted "a struct of 30 members"
file common/rail_group/a.h 'struct part {\n%s\n    union {\n        struct { int y, z; };\n        int u;\n    };\n};\n' "$(lines 28 '    int x;')"
accepted "a struct of 30 members, two of them in a union"
file common/rail_group/a.h 'struct part {\n%s\n    int y, z;\n};\n' "$(lines 29 '    int x;')"
refused "a struct of 31 members" "members part: 31"
file common/rail_group/a.h 'struct part {\n%s\n};\n' "$(lines 8 '    bool x; \/* bool y; *\/')"
accepted "a struct of 8 bools"
file common/rail_group/a.h 'struct part {\n    struct {\n        bool a, b, c;\n    } in;\n%s\n};\n' "$(lines 6 '    bool x;')"
refused "a struct of 9 bools" "bools part: 9"
rm "$work/common/rail_group/a.h"

file common/kv/one.c 'int one;\n'
file common/kv/two.c 'int two;\n'
file common/kv/three.c 'int three;\n'
file common/kv/map.h '/* The map:\n *\n *   one.c    the first    two.c  the second\n *   three.c  the third */\n'
accepted "a map of all files"
file common/kv/four.c 'int four;\n'
refused "a map that lacks a file" "lacks four.c"
rm "$work/common/kv/four.c" "$work/common/kv/two.c"
refused "a map that names a file that does not exist" "two.c, which does not exist"
file common/kv/two.c 'int two;\n'
file common/kv/other.h '/* Another:\n *   one.c    the first\n *   two.c    the second\n *   three.c  the third */\n'
refused "two maps that name the same files" "one.c 2 times"
