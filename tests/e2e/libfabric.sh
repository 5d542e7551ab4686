#!/bin/sh
# Goal: --libfabric chooses the libfabric that an agent loads, the start-up line names it, and what cannot be
# loaded is refused in one sentence that says why. An agent without libfabric serves provider local.
# Method: folders with a link to the system's libfabric, with none, and with three that are too old.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail kvrail-scheduler prefill-agent decode-agent
unset KVRAIL_LIBFABRIC

loaded=$("$bin/kvrail" topo | sed -n 's/^libfabric .* of \(.*\), kvrail is built with its API .*$/\1/p')
[ -f "$loaded" ] || fail "kvrail topo does not name the libfabric that it loaded: '$loaded'"
version=$("$bin/kvrail" topo --json | sed -n 's/^  "libfabric": "\(.*\)".*$/\1/p')
mkdir "$work/other" "$work/another" "$work/empty" "$work/nameless" "$work/old" "$work/older" "$work/short"
ln -s "$(realpath "$loaded")" "$work/other/libfabric.so.1"
ln -s "$(realpath "$loaded")" "$work/another/libfabric.so.1"
: >"$work/short/libfabric.so.1"

# names LOG FOLDER: the line of the start names that library and the API.
names() {
    line="is ready: .* libfabric $version of $2/libfabric.so.1, kvrail is built with its API [12]\.[0-9]*\$"
    grep -q "$line" "$work/$1.log" || fail "the $1-agent does not name $2: $(tail -n 1 "$work/$1.log")"
}

# By an option and by the environment. Bytes move.
start_scheduler
prefill_options="--libfabric $work/other"
start_prefill
export KVRAIL_LIBFABRIC="$work/another"
start_decode
names prefill "$work/other"
names decode "$work/another"
unset KVRAIL_LIBFABRIC
replay --requests 5 || fail "the replay ended in $?"
expect verified 5

# refused FOLDER WORD…: an agent ends with 2, and `kvrail topo` shows the same sentence.
refused() {
    folder=$1
    shift
    status=0
    timeout 20 "$bin/decode-agent" --name x --engine-socket "$work/x.sock" --provider tcp --insecure \
        --libfabric "$folder" >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" != 0 ] && [ "$status" -lt 100 ] || fail "--libfabric $folder: exit $status: $(cat "$work/out")"
    "$bin/kvrail" topo --libfabric "$folder" >"$work/topo"
    for word in "$@"; do
        grep -qF -- "$word" "$work/out" || fail "$folder: '$word' is not in: $(cat "$work/out")"
        grep '^tcp ' "$work/topo" | grep -qF -- "$word" || fail "$folder: '$word' is not in: $(cat "$work/topo")"
    done
    grep -qx 'no libfabric is loaded' "$work/topo" || fail "$folder: a libfabric is loaded: $(cat "$work/topo")"
}

refused "$work/empty" --libfabric "$work/empty/libfabric.so.1: cannot open shared object file"
refused "$work/short" --libfabric "$work/short/libfabric.so.1: file too short"
if command -v "${CC:-cc}" >/dev/null && command -v nm >/dev/null; then
    # No symbol of libfabric; then all of them, in a libfabric that says 1.11; then only their first versions.
    nm -D "$loaded" | sed -n 's/.* T \(fi_[a-z]*\)@@\(FABRIC_[0-9.]*\)$/\2 \1/p' | sort >"$work/symbols"
    {
        echo 'unsigned fi_version(void) { return 1 << 16 | 11; }'
        sed -n '/ fi_version$/d; s/.* \(.*\)/void \1(void) {}/p' "$work/symbols"
    } >"$work/stub.c"
    awk '{ names[$1] = names[$1] " " $2 ";" } END { for (node in names) print node " {" names[node] " };" }' \
        "$work/symbols" >"$work/stub.map"
    "${CC:-cc}" -shared -fPIC -w -o "$work/nameless/libfabric.so.1" -x c /dev/null || fail "no stub"
    "${CC:-cc}" -shared -fPIC -w -o "$work/old/libfabric.so.1" "$work/stub.c" \
        -Wl,--version-script="$work/stub.map" || fail "no stub with versions"
    echo 'FABRIC_1.0 { fi_*; };' >"$work/first.map"
    "${CC:-cc}" -shared -fPIC -w -o "$work/older/libfabric.so.1" "$work/stub.c" \
        -Wl,--version-script="$work/first.map" || fail "no stub with first versions"
    refused "$work/nameless" "$work/nameless/libfabric.so.1 has no fi_" 'of version FABRIC_1.' '--libfabric'
    for folder in old older; do
        refused "$work/$folder" "$work/$folder/libfabric.so.1 is libfabric 1.11, but kvrail is built with the API of" \
            --libfabric
    done
else
    echo "no compiler: old libraries were not tried"
fi

# Provider local has no use for libfabric: a wrong folder is not even looked at.
start local "$bin/decode-agent" --name local-0 --engine-socket "$work/local.sock" --provider local \
    $(credentials decode local-0) --scheduler "$scheduler" --libfabric "$work/empty"
await local "$work/local.sock"
if grep -q libfabric "$work/local.log"; then fail "an agent over local loads libfabric"; fi
echo "e2e.libfabric: passed"
