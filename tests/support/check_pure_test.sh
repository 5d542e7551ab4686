#!/bin/sh
# Goal: the purity check passes a library that only computes, and fails when the library, or an object of
# another library that it links, calls a clock, a heap or a file. Method: libraries of one function,
# checked by the script that the build runs. Arguments: cmake, C compiler, ar, ld, nm.
set -eu

cmake=$1 cc=$2 ar=$3 ld=$4 nm=$5
root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# library NAME FUNCTION BODY [FUNCTION BODY…]: NAME.a with an object for each function.
library() {
    name=$1
    shift
    rm -f "$work/$name.a"
    while [ $# -gt 0 ]; do
        printf '#include <stdlib.h>\n#include <string.h>\n#include <time.h>\nint near(int), far(int), farther(int);\nint %s(int n) { %s }\n' \
            "$1" "$2" >"$work/$1.c"
        "$cc" -c -o "$work/$1.o" "$work/$1.c"
        "$ar" rc "$work/$name.a" "$work/$1.o"
        shift 2
    done
}

# check [cmake variable…]
check() {
    "$cmake" -DLD="$ld" -DNM="$nm" -DLIBRARY="$work/pure.a" -DWORK="$work/linked.o" "$@" \
        -P "$root/common/cmake/check_pure.cmake" >/dev/null 2>&1
}

accepted() {
    goal=$1
    shift
    check "$@" || { echo "$goal: refused" && exit 1; }
}

refused() {
    goal=$1
    shift
    ! check "$@" || { echo "$goal: accepted" && exit 1; }
}

library pure near 'return n + (int)strlen("four");'
accepted "a library that computes"
library pure near 'return n + (int)time(NULL);'
refused "a library that reads the clock"
library pure near 'return malloc((size_t)n) != NULL;'
refused "a library that takes memory"
accepted "a library that may take memory" -DALLOW=malloc
library pure near 'unsigned __aarch64_ldset4_relax(unsigned, void *); return (int)__aarch64_ldset4_relax(4, &n);'
accepted "an atomic access of arm64"

library pure near 'return far(n);'
library linked far 'return n * 2;' unused 'return (int)time(NULL);'
accepted "an object beside the linked one reads the clock" -DLINKED="$work/linked.a"
refused "a function of no library"
library linked far 'return n + (int)time(NULL);'
refused "a linked object reads the clock" -DLINKED="$work/linked.a"
accepted "a library where the check stops" -DBEYOND="$work/linked.a"
library linked far 'return farther(n);' farther 'return rand();'
refused "a linked object links another that draws random numbers" -DLINKED="$work/linked.a"
