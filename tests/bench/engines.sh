#!/bin/sh
# kvrail's connector beside vLLM's own NixlConnector: what a transfer adds to the time until the first token.
#
#   sh tests/bench/engines.sh --json FILE [--tokens LIST] [--at-once LIST] [--path LIST] [--requests N]
#                             [--turns N] [--minutes N]
#
# --json FILE     write the figures there
# --tokens LIST   of the prompts (default 256,1500,7000)
# --at-once LIST  requests at the same time (default 1,8)
# --path LIST     same-host, tcp (default both)
# --requests N    of each variant at each of these, over all turns (default 200)
# --turns N       a turn measures each variant once, with the same prompts (default 5)
# --minutes N     then stop, and end with 75 when measurements are left
#
# A prefill server and a decode server of vLLM run on one core of the CPU each, with 512 blocks of 128
# tokens, all of which were used once before. A client sends a prompt to the prefill server, and its
# answer to the decode server. `ttft` is the time from the first call until the decode server's first
# token; `added` is the part of it after the prefill server's answer. Variants: kvrail; nixl; and none,
# where the servers are kvrail's, and the decode server computes the prompt again, as without any transfer
# (measured once for all paths). Paths: `same host` is kvrail's provider local and UCX's cma, sm and tcp
# (NIXL does not start without tcp); `tcp` is kvrail's provider tcp and UCX's tcp alone, on loopback. NIXL
# has one thread, its best number here: its default of 4 is slower, and with 0 transfers stall. `wrong`
# counts answers of 8 tokens that differ from those of one server. A percentile is the median of those of
# the turns.
#
# What was measured stays in build/engines/bench: a bench that was stopped goes on there when it is called
# again with as many requests a turn and the same build of kvrail. vLLM (3.5 GB) and NIXL are installed into
# build/engines; KVRAIL_ENGINES_VENV names a virtual environment that has vLLM. Where they cannot be: the
# reason, and exit 77.
set -eu
case ${1:-} in
-h | --help)
    sed -n '2,28s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
KVRAIL_ROOT_DIR=$(cd "$(dirname "$0")/../.." && pwd)
KVRAIL_BIN_DIR=${KVRAIL_BIN_DIR:-$KVRAIL_ROOT_DIR/build/release/bin}
KVRAIL_LIBRARY=${KVRAIL_LIBRARY:-$KVRAIL_ROOT_DIR/build/release/lib/libkvrail.so.1}
. "$KVRAIL_ROOT_DIR/tests/engines/environment.sh"
need_machine 11264
make_environment
python_path
add_nixl
BENCH_FOLDER=$engines/bench
mkdir -p "$BENCH_FOLDER"
export KVRAIL_ROOT_DIR KVRAIL_BIN_DIR KVRAIL_LIBRARY BENCH_FOLDER NIXL_VERSION="$nixl_version" PATH
exec "$venv/bin/python3" "$KVRAIL_ROOT_DIR/tests/engines/bench.py" "$@"
