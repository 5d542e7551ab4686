#!/bin/sh
# Goal: traces of any size are read, exported and merged in little memory; RESULTS.md has how fast. Method: a trace
# of 40 MB, plain and compressed: the resident set of each command, and its megabytes a second, which are printed.
# A command must not take half of the trace's size.
# trace_smoke.sh MAKE_TRACE
set -eu
make_trace=$1
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail
"$make_trace" "$work/big.kvtrace" 40
zstd -q "$work/big.kvtrace"
bytes=$(wc -c <"$work/big.kvtrace")

# measured NAME ARGUMENT…: a command of `kvrail trace`; prints its speed and its memory.
measured() {
    name=$1
    shift
    python3 - "$name" "$bytes" "$bin/kvrail" trace "$@" <<'END' || fail "$name takes too much, or failed"
import os, resource, subprocess, sys
name, size, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds = used.ru_utime + used.ru_stime
print(f"{name}: {size / 1e6 / seconds:.0f} MB a second of CPU, {used.ru_maxrss // 1024} MiB")
allowed = size // 2 if name != "merge" else 96 << 20 # which sorts in 32 MiB
sys.exit(used.ru_maxrss * 1024 > allowed and os.environ.get("KVRAIL_SANITIZE", "") == "")
END
}
for file in big.kvtrace big.kvtrace.zst; do
    measured "validate $file" validate "$work/$file"
    measured "info $file" info "$work/$file"
done
for format in perfetto csv summary; do
    measured "export $format" export --to $format "$work/big.kvtrace" --output /dev/null
done
"$bin/kvrail" trace cut "$work/big.kvtrace" --to 10s --output "$work/one.kvtrace"
"$bin/kvrail" trace cut "$work/big.kvtrace" --from 5s --output "$work/two.kvtrace"
measured merge merge "$work/one.kvtrace" "$work/two.kvtrace" --output "$work/both.kvtrace"
"$bin/kvrail" trace cut "$work/big.kvtrace" --output "$work/whole.kvtrace"
cmp "$work/whole.kvtrace" "$work/both.kvtrace" || fail "windows that overlap merge into another trace"
