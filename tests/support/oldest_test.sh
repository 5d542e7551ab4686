#!/bin/sh
# Goal: the library and the programs use nothing of a library that its oldest allowed version lacks.
# Method: common/cmake/oldest.txt has the versions, and some later names that the sources must not have; Debian's
# lists say since when a library has a function. A table with planted faults shows that they are seen.
# Arguments: the files.
set -eu
lists=/var/lib/dpkg/info
[ -z "${KVRAIL_SANITIZE:-}" ] || { echo "a sanitizer's run time has symbols of its own" >&2; exit 77; }
command -v objdump >/dev/null || { echo "no objdump" >&2; exit 77; }
ls $lists/*.symbols >/dev/null 2>&1 || { echo "no lists of Debian's in $lists" >&2; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

objdump -T "$@" | awk '/\*UND\*/ { print $NF }' | sort -u >"$work/taken"
objdump -p "$@" | awk '$1 == "NEEDED" { print $2 }' | sort -u >"$work/needed"
# Every name of the sources, but not those behind a comparison of versions.
find "$KVRAIL_ROOT_DIR/common" "$KVRAIL_ROOT_DIR"/*-agent "$KVRAIL_ROOT_DIR/scheduler" -name '*.[ch]' -exec awk '
    /^#if .*VERSION/ { skip = 1 } /^#(else|endif)/ { skip = 0 }
    !skip { gsub(/[^A-Za-z0-9_]+/, "\n"); print }' {} + | sort -u >"$work/names"

# since LIST: each function that is taken, and the version that brought it. Nothing, where the list has one for all.
since() {
    awk 'NR == FNR { taken[$1]; next }
        /^ / { split($1, name, "@"); sub(/-[^-]*$/, "", $2); versions[$2]; if (name[1] in taken) found[name[1]] = $2 }
        END { for (each in versions) count++; if (count > 1) for (each in found) print each, found[each] }' \
        "$work/taken" "$1"
}

# late TABLE: a line for each function that came later than its library's row allows.
late() {
    : >"$work/looked_at"
    while read -r soname; do
        stem=$(echo "$soname" | sed 's/\.so.*//; s/^libcurl-.*/libcurl/')
        case $stem in libc | libm | libdl | librt | libpthread | libresolv | ld-linux* | libkvrail) continue ;; esac
        row=$(awk -v stem="$stem" '$1 == stem || "lib" $1 == stem { sub(/ *#.*/, ""); print; exit }' "$1")
        [ -n "$row" ] || { echo "$soname is needed, but $1 names no oldest version of it" && continue; }
        # shellcheck disable=SC2086 # words of a row
        set -- "$1" $row
        table=$1 module=$2 oldest=$3
        shift 3
        row=" $* "
        for name in "$@"; do
            case $name in -*) continue ;; esac
            ! grep -qx "$name" "$work/names" || echo "the sources have $name, which $module $oldest lacks"
        done
        set -- "$table"
        list=$(grep -l "^$soname " $lists/*.symbols | head -n 1)
        [ -n "$list" ] || continue
        # An epoch is Debian's alone.
        since "$list" | while read -r name version; do
            echo "$module $name" >>"$work/looked_at"
            case $row in *" +$name "* | *" -$name "*) continue ;; esac
            dpkg --compare-versions "${version#*:}" le "$oldest" ||
                echo "$name is taken, which came with $module $version; $oldest is to be enough"
        done
    done <"$work/needed"
}

table=$KVRAIL_ROOT_DIR/common/cmake/oldest.txt
late "$table" >"$work/late"
if [ -s "$work/late" ]; then
    cat "$work/late"
    echo "do without it, or raise the version in common/cmake/oldest.txt and common/docs/support.md"
    exit 1
fi
functions=$(wc -l <"$work/looked_at")
libraries=$(cut -d' ' -f1 "$work/looked_at" | sort -u | wc -l)
[ "$functions" -ge 80 ] && [ "$libraries" -ge 6 ] ||
    { echo "only $functions functions of $libraries libraries were looked at: this test reads them wrongly" && exit 1; }

sed 's/^libuv .*/libuv 1.0/; s/^jansson .*/jansson 2.13 json_object_get/; /^sqlite3 /d; s/ -PQ.*//' "$table" >"$work/planted"
late "$work/planted" >"$work/late"
for words in 'uv_run is taken, which came with libuv' 'the sources have json_object_get, which jansson 2.13 lacks' \
    'libsqlite3.so.0 is needed, but' 'PQsendFlushRequest is taken, which came with libpq 15'; do
    grep -qF "$words" "$work/late" || { echo "a planted fault is not seen: $words" && cat "$work/late" && exit 1; }
done
echo "build.oldest: $functions functions of $libraries libraries"
