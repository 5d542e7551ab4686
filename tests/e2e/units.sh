#!/bin/sh
# Goal: the installed units start under a real systemd, with every sandboxing option, and a replay through them is
# right. The kernel shows that their processes have no right but kvrail-filter's one, and a filter of system calls.
# Method: systemd as the first process of namespaces of its own, on a copy-on-write view of this host. The argument
# is the build folder.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
[ -z "${KVRAIL_SANITIZE:-}" ] || { echo "sanitizers need what the units forbid" >&2; exit 77; }
build=${1:?the build folder}
[ "$(id -u)" = 0 ] || { echo "namespaces need root" >&2; exit 77; }
for command in unshare systemd-sysusers nft ip; do
    command -v $command >/dev/null || { echo "there is no $command here" >&2; exit 77; }
done
mkdir "$work/root" "$work/out"
DESTDIR=$work/package cmake --install "$build" --prefix /usr/local >"$work/install.log" 2>&1 ||
    fail "cmake --install failed"

# Prepares the root: installs as operations.md says, on loopback.
cat >"$work/out/prepare.sh" <<EOF
set -eu
cp -a "$work/package/usr/local/." /usr/local/
ldconfig
systemd-sysusers
cd /usr/local/share/doc/kvrail/examples
mkdir -p /etc/kvrail/tls
"$work/package/usr/local/bin/kvrail" certificates init /root/fleet >/dev/null
"$work/package/usr/local/bin/kvrail" certificates issue /root/fleet scheduler s prefill p0 decode d0 \\
    --host 127.0.0.1 >/dev/null
install -m 640 -g kvrail -t /etc/kvrail/tls /root/fleet/*.pem
sed 's/10\\.0\\.0\\.[0-9]*/127.0.0.1/g' scheduler.ini >/etc/kvrail/scheduler.ini
cp filter.ini /etc/kvrail/filter.ini
for name in prefill:p0 decode:d0; do
    sed -e 's/10\\.0\\.0\\.[0-9]*/127.0.0.1/g' -e 's/^provider = .*/provider = tcp/' -e '/^\\[rails\\]/a \\
rail-filter = /run/kvrail-filter/filter.sock\\
rail-filter-required = yes' \${name%:*}.ini >/etc/kvrail/\${name%:*}-\${name#*:}.ini
done
mkdir -p /run/systemd/system
cat >/run/systemd/system/kvrail-test.target <<END
[Unit]
Wants=kvrail-test.service
END
cat >/run/systemd/system/kvrail-test.service <<END
[Unit]
Wants=kvrail-filter.service kvrail-scheduler.service kvrail-prefill@p0.service kvrail-decode@d0.service
After=kvrail-filter.service kvrail-scheduler.service kvrail-prefill@p0.service kvrail-decode@d0.service
[Service]
Type=oneshot
ExecStart=/bin/sh $work/out/check.sh
StandardOutput=file:$work/out/check.log
StandardError=inherit
END
EOF

# Runs beside the units: a replay as the engines' user, then what the kernel says of each process.
cat >"$work/out/check.sh" <<EOF
for socket in p0 d0; do
    for i in \$(seq $((200 * patience))); do
        [ ! -S /run/kvrail/\$socket.sock ] || break
        sleep 0.1
    done
done
runuser -u kvrail -- /usr/local/bin/kvrail replay --source-socket /run/kvrail/p0.sock \\
    --target-socket /run/kvrail/d0.sock --source-agent 127.0.0.1:9480 --requests 40 --kv-bytes-per-token 2k \\
    --pool-bytes 64M --json /tmp/figures.json
echo "replay \$?"
cp /tmp/figures.json $work/out/ 2>/dev/null
for unit in kvrail-filter kvrail-scheduler kvrail-prefill@p0 kvrail-decode@d0; do
    pid=\$(systemctl show --property MainPID --value \$unit)
    echo "\$unit \$(sed -n 's/^\\(Uid\\|CapEff\\|CapBnd\\|NoNewPrivs\\|Seccomp\\):[[:space:]]*\\([^[:space:]]*\\).*/\\1=\\2/p' \\
        /proc/\$pid/status | tr '\\n' ' ')"
done
nft list table inet kvrail
journalctl --no-pager -q -o cat -u kvrail-filter -u kvrail-scheduler -u kvrail-decode@d0 -u kvrail-prefill@p0
systemctl stop kvrail-decode@d0 kvrail-prefill@p0 kvrail-scheduler kvrail-filter
systemctl --no-pager --plain list-units --state=failed 'kvrail-*' --no-legend | grep -v kvrail-test | sed 's/^/failed: /'
systemctl show --property Result kvrail-decode@d0 kvrail-prefill@p0 kvrail-scheduler kvrail-filter | grep Result
echo checked
EOF

start boot unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child=KILL \
    sh "$KVRAIL_ROOT_DIR/tests/support/boot_systemd.sh" "$work/root" "$work/out/prepare.sh" "$work"
boot_pid=$started
ended() { grep -qs '^checked' "$work/out/check.log" || not is_running "$boot_pid"; }
wait_for 90 ended || true
kill -9 "$boot_pid" 2>/dev/null || true
status=0
wait "$boot_pid" 2>/dev/null || status=$?
if [ $status = 77 ]; then
    cat "$work/boot.log" >&2
    exit 77
fi
cp "$work/out/check.log" "$work/check.log" 2>/dev/null || true 
said() { grep -q -- "$1" "$work/check.log" 2>/dev/null || fail "$2"; }
said '^checked' "systemd did not come so far"
said '^replay 0' "the replay through the units failed"
cp "$work/out/figures.json" "$work/figures.json"
expect verified 40
for unit in kvrail-scheduler kvrail-prefill@p0 kvrail-decode@d0; do
    said "^$unit .*CapEff=0000000000000000 CapBnd=0000000000000000 NoNewPrivs=1 Seccomp=2" "$unit has rights left"
done
said '^kvrail-filter .*CapEff=0000000000001000 CapBnd=0000000000001000 NoNewPrivs=1 Seccomp=2' \
    "kvrail-filter has not CAP_NET_ADMIN alone"
if grep -E '^[a-z@0-9-]* Uid=0 ' "$work/check.log"; then fail "a unit runs as root"; fi
said 'closes them to all but authenticated peers' "the agent is not filtered"
said '127.0.0.1 . 95[0-9][0-9] : jump agent' "the filter keeps no port"
if grep -E '^failed:|^Result=[^s]' "$work/check.log"; then fail "a unit failed"; fi
echo "e2e.units: passed"
