# in_spaces PROGRAM ARGUMENT…: runs a program of this folder in namespaces of its own (processes, mounts, networks),
# which end with it. Where that cannot be, prints why and returns 77. The caller sets root.
KVRAIL_BIN_DIR=${KVRAIL_BIN_DIR:-$root/build/release/bin}
PATH=$PATH:/usr/sbin:/sbin
export KVRAIL_BIN_DIR PATH

# What is missing here, if anything.
missing_for_spaces() {
    for command in python3 ip tc nft curl setpriv unshare nsenter; do
        command -v $command >/dev/null || echo "there is no $command"
    done
    for program in kvrail kvrail-scheduler prefill-agent decode-agent; do
        [ -x "$KVRAIL_BIN_DIR/$program" ] || echo "$program was not built"
    done
    unshare --mount --net --pid --fork --mount-proc true || echo "no namespaces can be made here"
}

# unshare takes no signal while it waits: its child does.
pass_on() {
    child=$(cat "/proc/$spaces/task/$spaces/children")
    kill -TERM "${child% }" 2>/dev/null || true
}

in_spaces() {
    missing=$(missing_for_spaces)
    if [ -n "$missing" ]; then
        echo "$missing" >&2
        return 77
    fi
    program=$root/tests/e2e/faults/$1
    shift
    setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --mount-proc python3 -B "$program" "$@" &
    spaces=$!
    trap pass_on INT TERM
    while :; do
        status=0
        wait $spaces || status=$?
        kill -0 $spaces 2>/dev/null || return $status
    done
}
