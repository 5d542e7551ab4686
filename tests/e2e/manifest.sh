#!/bin/sh
# Goal: the agents start with the arguments of common/containers/pod.yaml, as a pod gives them: folders that all
# users may write, a root file system that is read only, no capability outside their own user namespace. The probes
# find them, and SIGTERM ends them with 0. What the manifest and the Containerfile say fits together.
# Method: namespaces by unshare in place of a cluster; the addresses are loopback, the ports free ones.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
need kvrail prefill-agent decode-agent
manifest() { python3 "$KVRAIL_ROOT_DIR/tests/support/manifest.py" "$KVRAIL_ROOT_DIR" "$@"; }
python3 -c 'import yaml' 2>/dev/null || { echo "there is no python3-yaml" >&2; exit 77; }
. "$KVRAIL_ROOT_DIR/tests/support/containers.sh"
manifest check || fail "common/containers is not in order"

for role in prefill decode; do
    credentials $role $role-0 >"$work/credentials" # makes them
    pod=$work/$role
    mkdir "$pod" "$pod/run" "$pod/lib"
    chmod 777 "$pod/run" "$pod/lib" # as an emptyDir
    # shellcheck disable=SC2016 # the manifest's variables
    manifest arguments $role | sed -e "s|^$role-agent\$|$bin/&|" -e "s|/run/kvrail|$pod/run|" \
        -e "s|/var/lib/kvrail|$pod/lib|" -e 's|\$(POD_IP):9480|127.0.0.1:0|' -e 's|\$(POD_IP)|127.0.0.1|' \
        -e "s|\$(POD_NAME)|$role-0|" -e "s|/etc/kvrail/tls/tls.crt|$tls/$role-0.pem|" \
        -e "s|/etc/kvrail/tls/tls.key|$tls/$role-0-key.pem|" -e "s|/etc/kvrail/tls/ca.crt|$tls/ca.pem|" -e 's|kvrail-scheduler:9470|127.0.0.1:1|' >"$work/arguments"
    ! grep -F "\$(" "$work/arguments" || fail "a variable of the manifest is not known here"
    set --
    while read -r word; do set -- "$@" "$word"; done <"$work/arguments"
    # shellcheck disable=SC2016 # expanded within
    contain $role 'mount --bind "$1" "$1" && mount -o remount,bind,ro / && shift && exec "$@"' "$pod" "$@"
    agent=$started
    socket=$(sed -n 's/^--engine-socket=//p' "$work/arguments")
    wait_for 30 "$bin/kvrail" alive "$socket" 2>/dev/null || fail "the $role-agent does not answer"
    ! touch "/proc/$inner/root$work/written" 2>/dev/null || fail "the root is not read only"
    kill "$inner"
    gone "$agent"
    [ "$status" = 0 ] || fail "SIGTERM ended the $role-agent with $status"
done
echo "manifest: passed"
