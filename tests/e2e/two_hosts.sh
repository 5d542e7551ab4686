#!/bin/sh
# Goal: two hosts that are set up by common/docs/operations.md, word for word, move a request.
# Method: the page's blocks ```sh host=… run in its order on three hosts: namespaces of network, mounts
# and host name, with the page's addresses and a firewall that drops what the page does not open. The
# machine stays as it is: /usr/local, /etc and /var are overlays there, /run is empty. Not run: the block
# step=build, because the build under test is installed; step=firewall where there is no nft. Stand-ins
# for systemctl and three other commands are in tests/support/shims. The argument is the build folder.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
[ -z "${KVRAIL_SANITIZE:-}" ] || { echo "sanitized libraries do not fit other programs" >&2; exit 77; }
build=$1
page=$KVRAIL_ROOT_DIR/common/docs/operations.md
shims=$KVRAIL_ROOT_DIR/tests/support/shims
PATH=$shims:$PATH:/usr/sbin:/sbin
export PATH

skip() {
    echo "two_hosts: skipped: $*" >&2
    exit 77
}

[ "$(id -u)" = 0 ] || skip "network and mount namespaces need root"
for command in ip unshare nsenter setpriv runuser systemd-sysusers dpkg-query pkg-config cc curl tar; do
    command -v $command >/dev/null || skip "there is no $command"
done
nft=$(command -v nft || true)

# ---- hosts

space() { echo "kvh$$-$1"; }

address_of() {
    case $1 in
    S) echo 10.0.0.5 ;;
    P) echo 10.0.0.7 ;;
    D) echo 10.0.0.8 ;;
    esac
}

# on HOST COMMAND…: there, in root's home.
on() {
    host_pid=$(cat "$work/$1.pid")
    host_home=$work/hosts/$(address_of "$1")
    shift
    nsenter -n -m -u -t "$host_pid" --wdns="$host_home" env HOME="$host_home" "$@"
}

remove_hosts() {
    for host in S P D; do
        [ -s "$work/$host.pid" ] || continue
        for unit in kvrail-prefill@p0 kvrail-decode@d0 kvrail-scheduler; do
            on "$host" sh -c "[ ! -e /run/$unit.pid ] || systemctl stop $unit" || true
        done
        kill "$(cat "$work/$host.pid")" || true
    done
    for host in S P D switch; do
        ip netns del "$(space $host)" 2>/dev/null || true
    done
}

# What a host has of its own: the folders that the page writes to, and an empty /run.
cat >"$work/host.sh" <<'END'
set -eu
mount --make-rprivate /
hostname "host-$2"
mkdir "$1/own"
mount -t tmpfs tmpfs "$1/own"
for folder in /usr/local /etc /var; do
    mkdir -p "$1/own/upper$folder" "$1/own/work$folder"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$1/own/upper$folder,workdir=$1/own/work$folder" $folder
done
mount -t tmpfs -o mode=755 tmpfs /run
: >"$1/ready"
exec sleep 100000
END

start_host() {
    home=$work/hosts/$(address_of "$1")
    mkdir -p "$home"
    ip netns add "$(space "$1")" 2>"$work/ip.log" || skip "no network namespaces here: $(cat "$work/ip.log")"
    ip -n "$(space "$1")" link set lo up
    ip -n "$(space switch)" link add "to$1" type veth peer name eth0 netns "$(space "$1")"
    ip -n "$(space switch)" link set "to$1" master hub up
    ip -n "$(space "$1")" addr add "$(address_of "$1")/24" dev eth0
    ip -n "$(space "$1")" link set eth0 up
    ip netns exec "$(space "$1")" unshare -m -u sh "$work/host.sh" "$home" "$1" >"$work/host.log" 2>&1 </dev/null &
    echo $! >"$work/$1.pid"
    tries=0
    until [ -e "$home/ready" ]; do
        tries=$((tries + 1))
        kill -0 "$(cat "$work/$1.pid")" 2>/dev/null || skip "no mount namespaces here: $(cat "$work/host.log")"
        [ $tries -le $((100 * patience)) ] || fail "host $1 does not start"
        sleep 0.1
    done
    [ -z "$nft" ] || on "$1" nft -f - <<'END'
table inet filter {
    chain input {
        type filter hook input priority 0; policy drop;
        ct state established,related accept
        iif lo accept
    }
}
END
}

start_hosts() {
    trap 'remove_hosts; stop_programs' EXIT
    ip netns add "$(space switch)" 2>"$work/ip.log" || skip "no network namespaces here: $(cat "$work/ip.log")"
    ip -n "$(space switch)" link add hub type bridge || skip "no bridges here"
    ip -n "$(space switch)" link set hub up
    for host in S P D; do
        start_host $host
    done
    # A clone of the project, with the build under test where the page has one.
    KVRAIL_TEST_HOSTS=$work/hosts
    export KVRAIL_TEST_HOSTS
    mkdir "$work/clone"
    ln -s "$build" "$work/clone/build"
}

# ---- the page

# Each block: a file blocks/NN whose first line is what follows ```sh in the page.
read_blocks() {
    mkdir "$work/blocks"
    awk -v folder="$work/blocks" '
        /^```sh host=/ { file = sprintf("%s/%02d", folder, ++count); sub(/^```sh /, ""); print >file; next }
        /^```/ { file = "" }
        file != "" { print >file }' "$page"
    [ "$(find "$work/blocks" -type f | wc -l)" -ge 12 ] || fail "the page has too few blocks"
}

has_word() {
    case " $words " in
    *" $1 "*) return 0 ;;
    esac
    return 1
}

# A dropped packet lets curl wait in vain; without a firewall the connection would be refused.
check_firewall() {
    [ -n "$nft" ] || return 0
    status=0
    on D curl -s --connect-timeout 1 http://10.0.0.7:9480/ || status=$?
    [ $status = 28 ] || fail "the firewall of P lets port 9480 through: curl ended in $status"
}

# run_block FILE HOST: what a block writes is shown when it fails.
run_block() {
    sed -e 1d -e "s/GENERATION/${generation:-GENERATION}/" -e "s/=SECRET/=${secret:-SECRET}/" \
        "$1" >"$1.sh"
    log=$work/$(basename "$1")-$2.log
    case $2 in
    clone) (cd "$work/clone" && exec timeout $((60 * patience)) sh -eu "$1.sh") >"$log" 2>&1 </dev/null || block_failed ;;
    *)
        if has_word background; then
            on "$2" sh -eu "$1.sh" >"$log" 2>&1 </dev/null &
            background=$!
            background_log=$log
            await_publish
        else
            on "$2" timeout $((60 * patience)) sh -eu "$1.sh" >"$log" 2>&1 </dev/null || block_failed
        fi
        ;;
    esac
}

block_failed() {
    status=$?
    for host in S P D; do
        for unit in $(on $host sh -c 'cd /var/log && ls kvrail-*.log 2>/dev/null'); do
            echo "--- $host: $unit" >&2
            on $host tail -n 20 "/var/log/$unit" >&2
        done
    done
    cat "$block.sh" >&2
    fail "this block ended in $status on host $host_name"
}

await_publish() {
    tries=0
    until grep -q '^secret' "$background_log"; do
        tries=$((tries + 1))
        [ $tries -le $((100 * patience)) ] || fail "the source did not publish: $(cat "$background_log")"
        sleep 0.1
    done
    generation=$(sed -n 's/^generation //p' "$background_log")
    secret=$(sed -n 's/^secret //p' "$background_log")
}

run_page() {
    for block in "$work"/blocks/??; do
        words=$(head -n 1 "$block")
        if has_word step=build; then
            echo "not run: the block that builds"
            continue
        fi
        if has_word step=firewall && [ -z "$nft" ]; then
            echo "not run: a firewall block, for there is no nft"
            continue
        fi
        if has_word step=firewall && [ -z "${firewall_checked:-}" ]; then
            check_firewall
            firewall_checked=1
        fi
        hosts=${words#host=}
        for host_name in $(echo "${hosts%% *}" | tr , ' '); do
            run_block "$block" "$host_name"
        done
    done
}

# log_of WORDS: what the block that contains those words wrote.
log_of() {
    found=$(grep -l -- "$1" "$work"/blocks/??.sh | head -n 1)
    [ -n "$found" ] || fail "no block of the page has '$1'"
    cat "$work/$(basename "$found" .sh)"-*.log
}

# check_named KIND NAMES: the page names each of them.
check_named() {
    kind=$1
    shift
    [ $# -ge 10 ] || fail "there are too few $kind: $*"
    for name in "$@"; do
        grep -q "\`$name[\`{]" "$page" || fail "the page does not name the $kind $name"
    done
}

# Every metric, reason, path and phase that the scheduler shows, and no reason that it does not know.
# shellcheck disable=SC2046 # words
check_figures() {
    on S curl -K /etc/kvrail/operator.curl -fsS https://10.0.0.5:9470/metrics >"$work/metrics"
    for reason in $(sed -n '/^### A transfer ends/,/^### A transfer does/s/^| `\([a-z_]*\)` |.*/\1/p' "$page"); do
        grep -q "reason=\"$reason\"" "$work/metrics" || fail "the page names the reason $reason, which is none"
    done
    check_named metric $(sed -n 's/^# TYPE kvrail_\([a-z_]*\) .*/\1/p' "$work/metrics")
    check_named reason $(sed -n 's/.*,reason="\([a-z_]*\)".*/\1/p' "$work/metrics" | grep -vx ok | sort -u)
    check_named "path or phase" $(sed -n 's/.*[,{]p[a-z]*="\([a-z]*\)".*/\1/p' "$work/metrics" | grep -vx tcp | sort -u)
}

unset REQUEST_SECRET # the source draws it
start_hosts
read_blocks
run_page
check_figures
log_of healthz | grep -q '"status":"ok"' || fail "healthz does not say ok"
log_of 'kvrail-example-decode /run' | grep -q '^done: ok$' || fail "the fetch is not done"
log_of 'kvrail-example-decode /run' | grep -q '^0 bytes wrong$' || fail "the bytes are not checked"
wait "$background" || fail "the source ended in $?: $(cat "$background_log")"
grep -q '^source_free: ok, [1-9]' "$background_log" || fail "no bytes moved: $(cat "$background_log")"
log_of 'kvrail why' | grep -q 'from p0 to d0: 64 tokens' || fail "kvrail why does not know the transfer"
on P journalctl -u kvrail-prefill@p0 | grep -q SIGHUP || fail "the reload is not in the log"
on D journalctl -u kvrail-decode@d0 | grep -q 'has ended all work and stops' || fail "the stop is not in the log"
echo "two_hosts: passed"
