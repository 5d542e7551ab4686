# shellcheck shell=sh disable=SC2034,SC2154 # the test reads these variables and sets others
#
# Containers by unshare, for tests that have sourced programs.sh. Each has user, PID, mount, IPC and UTS namespaces
# of its own, in the test's network. The test is skipped where there are none. A container has two processes: the one
# outside is a child of this shell, and the program within is PID 1 there.
command -v unshare >/dev/null || { echo "there is no unshare" >&2; exit 77; }
apart="unshare --user --map-root-user --pid --fork --kill-child --mount --mount-proc --ipc --uts"
# shellcheck disable=SC2086 # words of a command
$apart mount -t tmpfs tmpfs /mnt 2>"$work/unshare.log" || {
    echo "no containers here: $(cat "$work/unshare.log")" >&2
    exit 77
}
rm "$work/unshare.log"

# contain NAME SCRIPT ARGUMENT…: the script makes the container's mounts and becomes the program by exec. The process
# outside is $started, the program $inner.
contain() {
    name=$1 script=$2
    shift 2
    # shellcheck disable=SC2086
    start "$name" $apart sh -c "$script" sh "$@"
    inner=
    wait_for 30 has_begun || fail "$name did not start"
}
# inner_of OUTSIDE: the program's number; nothing before it runs, and after its end.
inner_of() { { tr -d ' ' <"/proc/$1/task/$1/children"; } 2>/dev/null || true; }
has_begun() {
    inner=$(inner_of "$started")
    [ -n "$inner" ] || not is_contained "$started"
}

# is_contained OUTSIDE: it has not ended; one that was not waited for has.
is_contained() { ours "$1" && ! grep -qs '^State:[[:space:]]*Z' "/proc/$1/status"; }
# gone OUTSIDE: after the end of its program; its status is $status.
gone() {
    wait_for 20 not is_contained "$1" || fail "a container did not end"
    status=0
    wait "$1" || status=$?
}

# Before stop_programs: unshare ignores its SIGTERM.
end_containers() {
    for pid in $started_pids; do
        ! ours "$pid" || kill -9 "$pid" 2>/dev/null || true # the program dies with it
    done
    stop_programs
}
trap end_containers EXIT
