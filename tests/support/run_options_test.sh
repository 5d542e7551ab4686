#!/bin/sh
# Goal: run.sh refuses a wrong option at once, with a sentence that names it, and installs and builds nothing.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset KVRAIL_LIBFABRIC_ROOT
run=$KVRAIL_ROOT_DIR/tests/run.sh

# refused WORDS ARGUMENT…
refused() {
    words=$1 code=0
    shift
    timeout 20 sh "$run" "$@" >"$work/out" 2>&1 </dev/null || code=$?
    [ $code -eq 2 ] || { echo "run.sh $*: exit $code, not 2" && cat "$work/out" && exit 1; }
    grep -qF -- "$words" "$work/out" || { echo "run.sh $*: '$words' is not in:" && cat "$work/out" && exit 1; }
    [ "$(wc -l <"$work/out")" -eq 1 ] || { echo "run.sh $*: more than a sentence:" && cat "$work/out" && exit 1; }
}

mkdir -p "$work/empty/lib"
refused "--libfabric is '$work/none', but there is no libfabric.so.1 in lib or lib64" --libfabric "$work/none"
refused "--libfabric-run is '$work/empty', but there is no" --libfabric-run "$work/empty"
refused '--libfabric lacks its value' --libfabric
refused '--libfabric-run lacks its value' --stages release --libfabric-run
export KVRAIL_LIBFABRIC_ROOT="$work/none"
refused "KVRAIL_LIBFABRIC_ROOT is '$work/none', but there is no" --stages lint
unset KVRAIL_LIBFABRIC_ROOT
refused "there is no stage 'nothing'" --stages nothing
sh "$run" --help >"$work/help"
for option in --stages --campaign --libfabric --libfabric-run; do
    grep -q -- "$option[: ]" "$work/help" || { echo "--help does not describe $option" && exit 1; }
done
tail -n 1 "$work/help" | grep -q 'skipped then\.$' || { echo "--help ends too early or too late" && exit 1; }
