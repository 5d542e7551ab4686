#!/bin/sh
# Goal: the library and the programs start with the glibc of common/cmake/oldest.txt.
# Method: no file asks for a symbol of a newer version. Arguments: the files.
set -eu
bound=$(sed -n 's/^glibc  *\([0-9.]*\).*/\1/p' "$KVRAIL_ROOT_DIR/common/cmake/oldest.txt")
[ -z "${KVRAIL_SANITIZE:-}" ] || { echo "a sanitizer's run time has symbols of its own" >&2; exit 77; }
command -v objdump >/dev/null || { echo "no objdump" >&2; exit 77; }
for file in "$@"; do
    versions=$(objdump -T "$file" | grep -o 'GLIBC_[0-9][0-9.]*' | sed 's/GLIBC_//' | sort -Vu)
    newest=$(echo "$versions" | tail -n 1)
    [ -n "$newest" ] || { echo "$file: no symbol of glibc was found" >&2; exit 1; }
    if [ "$(printf '%s\n%s\n' "$newest" "$bound" | sort -V | tail -n 1)" != $bound ]; then
        echo "$file needs glibc $newest, and at most $bound is allowed:" >&2
        objdump -T "$file" | grep -F "GLIBC_$newest" >&2
        exit 1
    fi
    echo "$(basename "$file"): glibc $newest"
done
