#!/bin/sh
# Goal: where no CUDA toolkit is, this build's compiler takes the code that is different there; the stages
# have whole builds of it with one compiler only. Arguments: the compiler, the folder of generated headers.
set -eu
compiler=$1 generated=$2
cd "$KVRAIL_ROOT_DIR"
count=0
for file in $(grep -rl 'ifdef KVRAIL_HAVE_CUDA' --include='*.c' common prefill-agent decode-agent scheduler) \
    common/device/*_none.c; do
    "$compiler" -std=gnu17 -D_GNU_SOURCE -O2 -Wall -Wextra -Wshadow -Werror -fsyntax-only \
        -I. -Icommon -isystem "$generated" "$file" || { echo "without_cuda: $file does not compile" >&2 && exit 1; }
    count=$((count + 1))
done
[ $count -ge 6 ] || { echo "without_cuda: only $count files are different: the list is wrong" >&2 && exit 1; }
echo "without_cuda: $count files"
