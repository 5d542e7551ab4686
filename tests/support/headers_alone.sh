#!/bin/sh
# Goal: every header compiles by itself, so that it includes all that it uses. Method: the compiler reads
# each header as a file of its own, with the flags of the build; a planted header that lacks an include
# must fail. Arguments: the C compiler, the build folder (with compile_commands.json).
set -eu

cc=$1 build=$2
root=${KVRAIL_ROOT_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$root"

# Folders of headers and definitions, of all targets together.
flags=$(grep -oE -- '(-I|-isystem |-DKVR[A-Z_]*=?)[^ "\\]*' "$build/compile_commands.json" |
    grep -v -e KVR_KERNEL_FILE | sort -u | tr '\n' ' ')

# alone HEADER…: those that do not compile are printed with the compiler's words.
alone() {
    # shellcheck disable=SC2086 # a list of flags
    printf '%s\n' "$@" | xargs -P "$(nproc)" -n 8 sh -c '
        flags=$1 cc=$2 failed=0
        shift 2
        for header in "$@"; do
            $cc -x c -fsyntax-only -std=gnu17 -D_GNU_SOURCE -Werror=implicit-function-declaration $flags "$header" || failed=1
        done
        exit $failed' headers "$flags" "$cc"
}

# Code of a GPU is for nvcc. Without CUDA nothing that includes its headers is built.
headers=$(find common prefill-agent decode-agent scheduler tests -name '*.h' -type f | sort |
    xargs grep -L __device__)
if ! echo '#include <cuda.h>' | $cc -x c -fsyntax-only $flags - 2>/dev/null; then
    headers=$(echo "$headers" | xargs grep -L 'include <cuda\|include "base/cuda_driver.h"')
fi
# shellcheck disable=SC2086 # names without spaces
[ "$(echo "$headers" | wc -l)" -gt 200 ] || { echo "there are more headers than these: $headers" && exit 1; }
# shellcheck disable=SC2086
alone $headers || { echo "headers above do not compile alone" && exit 1; }

printf '#include "base/types.h"\nstruct planted { uv_loop_t *loop; };\n' >"$work/planted.h"
! alone "$work/planted.h" 2>/dev/null || { echo "a header that lacks an include was accepted" && exit 1; }
