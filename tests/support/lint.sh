#!/bin/sh
# One check of the sources: sh tests/support/lint.sh format|spelling|words|cppcheck|scripts|oldest|arm64|tidy|analyzer
# Prints nothing when all is well. `tidy` and `analyzer` need the preset tidy configured; `analyzer` takes ten times
# as long, and what it says is to be read: it does not follow what a status means, and so stops no build. `oldest` is a build with old
# tools, `arm64` one for that processor; where the tools are not to be had, either says so and ends with 77.
# `words` takes files and folders too, and then prints every violation in them; tests/support/words.py
# describes its rules.
set -eu

cd "$(dirname "$0")/../.."
folders="common prefill-agent decode-agent scheduler"

sources() {
    # shellcheck disable=SC2086 # a list of folders
    find $folders tests \( -name '*.c' -o -name '*.h' \) -print | sort
}

case ${1:-} in
format)
    sources | xargs clang-format --dry-run -Werror
    ;;
spelling)
    # Words of ours that look like misspelt others stand in the list.
    # shellcheck disable=SC2086,SC2038 # our names have no spaces
    find $folders tests .ci -type f ! -path '*/corpus/*' ! -name codespell_words.txt \
        ! -path '*/node_modules/*' -print |
        xargs codespell --ignore-regex '\\n' -I tests/support/codespell_words.txt ./*.md CMakeLists.txt
    ;;
words)
    shift
    # Arguments are relative to the root.
    python3 tests/support/words.py "$@"
    ;;
cppcheck)
    # It takes accept4's address for one that must be given, does not see into uthash's HASH_ITER, and takes what is
    # mapped over a lost page for memory of our own.
    # shellcheck disable=SC2086
    cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 -j "$(nproc)" \
        --enable=warning,performance,portability --library=posix --library=gnu \
        --suppress=missingInclude --suppress=missingIncludeSystem --suppress=unknownMacro --suppress=readdirCalled \
        --suppress=leakReturnValNotUsed:common/base/fault_guard.c \
        --suppress=nullPointer:common/agent/engine/engine_port.c --suppress=nullPointer:common/filter/filter_server.c --suppress=uninitvar:scheduler/apply.c --suppress=sizeofFunctionCall:scheduler/store_write.c \
        -D_GNU_SOURCE -I . -I common $folders
    ;;
scripts)
    # shellcheck disable=SC2044,SC2086 # our names have no spaces
    for script in $(find $folders tests -name node_modules -prune -o -name '*.sh' -print) tests/support/shims/*; do
        sh -n "$script"
    done
    ;;
oldest)
    sh tests/support/oldest_tools.sh
    ;;
arm64)
    sh tests/support/arm64.sh
    ;;
tidy)
    cmake --build --preset tidy -- -k 0
    ;;
analyzer)
    # shellcheck disable=SC2086 # a list of folders
    find $folders -name '*.c' -print | sort | xargs -P "$(nproc)" -n 4 clang-tidy -p build/tidy --quiet
    ;;
*)
    echo "lint.sh: format, spelling, words, cppcheck, scripts, oldest, arm64, tidy or analyzer?" >&2
    exit 2
    ;;
esac
