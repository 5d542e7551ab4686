#!/bin/sh
# Goal: `cmake --install` into an empty prefix gives programs that run from there, as an ordinary user. It has
# all that an engine needs to be built: two programs in C and one in C++ move a page.
# Method: the user of the tests installs; then this same script, copied beside the prefix, runs as a user
# without other rights. The argument is the build folder.
set -eu
. "$KVRAIL_ROOT_DIR/tests/support/programs.sh"
[ -z "${KVRAIL_SANITIZE:-}" ] || { echo "sanitized libraries do not fit other programs" >&2; exit 77; }
unprivileged=61917

# ---- the first part, in the build folder

install_prefix() {
    cmake --install "$1" --prefix "$work/prefix" >"$work/cmake.log" 2>&1 || fail "cmake --install failed"
    for file in bin/prefill-agent bin/decode-agent bin/kvrail-scheduler bin/kvrail-filter bin/kvrail include/kvrail.h \
        lib/systemd/system/kvrail-prefill@.service lib/systemd/system/kvrail-decode@.service \
        lib/systemd/system/kvrail-scheduler.service lib/systemd/system/kvrail-filter.service share/doc/kvrail/examples/prefill.ini \
        share/doc/kvrail/examples/decode.ini share/doc/kvrail/examples/scheduler.ini \
        share/doc/kvrail/common/docs/operations.md share/man/man1/kvrail.1 share/man/man1/kvrail-status.1 \
        share/man/man8/prefill-agent.8 share/man/man8/kvrail-scheduler.8 share/bash-completion/completions/kvrail \
        share/zsh/site-functions/_kvrail share/fish/vendor_completions.d/kvrail.fish; do
        [ -s "$work/prefix/$file" ] || fail "$file was not installed"
    done
    library=$(find "$work/prefix" -name 'libkvrail.so.1')
    [ -L "$library" ] || fail "libkvrail.so.1 was not installed"
    objdump -p "$library" | grep -q 'SONAME *libkvrail.so.1$' || fail "the soname is wrong"
    if grep -rq '@[A-Z_]*@' "$work/prefix/lib/systemd"; then fail "a unit is not filled in"; fi
    grep -q "^ExecStart=$work/prefix/bin/prefill-agent " "$work"/prefix/lib/systemd/system/kvrail-prefill@.service ||
        fail "the unit does not start the installed program"
}

# systemd's own opinion of the units.
verify_units() {
    command -v systemd-analyze >/dev/null || { echo "units not verified: no systemd-analyze"; return 0; }
    mkdir "$work/units"
    for unit in prefill decode; do
        cp "$work/prefix/lib/systemd/system/kvrail-$unit@.service" "$work/units/kvrail-$unit@x.service"
    done
    cp "$work/prefix/lib/systemd/system/kvrail-scheduler.service" "$work/prefix/lib/systemd/system/kvrail-filter.service" "$work/units/"
    systemd-analyze verify --man=no "$work"/units/*.service >"$work/units.log" 2>&1 || true
    if grep "^$work/units" "$work/units.log"; then fail "systemd finds fault with a unit"; fi
}

run_as_user() {
    chmod 711 "$work"
    mkdir -p "$work/user" "$work/tests/support"
    cp "$0" "$work/tests/install.sh"
    cp "$KVRAIL_ROOT_DIR/tests/support/programs.sh" "$work/tests/support/"
    chmod -R a+rX "$work/prefix" "$work/tests"
    user=
    if [ "$(id -u)" = 0 ]; then
        if command -v setpriv >/dev/null; then
            chown $unprivileged:$unprivileged "$work/user"
            user="setpriv --reuid $unprivileged --regid $unprivileged --clear-groups --no-new-privs"
        else
            echo "not run as an ordinary user: no setpriv"
        fi
    fi
    # shellcheck disable=SC2086 # words of a command
    env -i PATH="$PATH" HOME="$work/user" TMPDIR="$work/user" KVRAIL_ROOT_DIR="$work" \
        KVRAIL_BIN_DIR="$work/prefix/bin" $user sh "$work/tests/install.sh" user "$work/prefix" ||
        fail "the installed programs do not work"
}

# ---- the second part, with the prefix only

# compile NAME COMPILER SOURCE OPTION…: as an engine would.
compile() {
    name=$1 compiler=$2 source=$3
    shift 3
    # shellcheck disable=SC2046 # words of a command
    "$compiler" "$@" -Wall -Wextra -Werror -o "$work/$name" "$prefix/share/doc/kvrail/examples/$source" \
        $(pkg-config --cflags --libs kvrail) -Wl,-rpath,"$(pkg-config --variable=libdir kvrail)" \
        >"$work/compile.log" 2>&1 || fail "$source does not compile"
}

# move TARGET: the C source publishes, that target fetches.
move() {
    rm -f "$work/source.out"
    "$work/prefill" "$work/run/prefill-0.sock" "page-$1" >"$work/source.out" 2>&1 &
    source_pid=$!
    started_pids="$started_pids $source_pid"
    wait_for 30 grep -q '^generation' "$work/source.out" || fail "the source did not publish: $(cat "$work/source.out")"
    generation=$(sed -n 's/^generation //p' "$work/source.out")
    "$work/$1" "$work/run/decode-0.sock" "page-$1" "$source_agent" "$generation" >"$work/target.out" 2>&1 ||
        fail "$1 fetched nothing: $(cat "$work/target.out")"
    wait "$source_pid" || fail "the source: $(cat "$work/source.out")"
    grep -q 'source_free: ok, [1-9]' "$work/source.out" || fail "no bytes moved: $(cat "$work/source.out")"
}

run_installed() {
    prefix=$1
    [ "$(id -u)" != 0 ] || echo "run as root"
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name kvrail.pc)")
    export PKG_CONFIG_PATH
    start_scheduler
    # Without --engine-socket: in a run folder, as a service has it. The examples name two hosts.
    mkdir "$work/run" "$work/state"
    for side in prefill decode; do
        sed -e 's/10\.0\.0\.[0-9]*/127.0.0.1/g' -e 's/^prefill-agent *=.*//' \
            -e "s|/etc/kvrail/tls/[pd]0|$tls/$side-0|" -e "s|/etc/kvrail/tls|$tls|" \
            "$prefix/share/doc/kvrail/examples/$side.ini" >"$work/$side.ini"
        credentials $side $side-0 >"$work/credentials" # makes them
    done
    start prefill "$bin/prefill-agent" --name prefill-0 --run-dir "$work/run" --listen 127.0.0.1:0 \
        --port-file "$work/prefill.port" --scheduler "$scheduler" --state-dir "$work/state/prefill" \
        --config "$work/prefill.ini"
    prefill_pid=$started
    await prefill "$work/prefill.port"
    source_agent=127.0.0.1:$(cat "$work/prefill.port")
    start decode "$bin/decode-agent" --name decode-0 --run-dir "$work/run" --scheduler "$scheduler" \
        --state-dir "$work/state/decode" --config "$work/decode.ini"
    decode_pid=$started
    await decode "$work/run/decode-0.sock"
    ln -s "$work/run/prefill-0.sock" "$work/source.sock"
    ln -s "$work/run/decode-0.sock" "$work/target.sock"
    replay --requests 10 || fail "the replay ended in $?"
    expect verified 10

    compile prefill "${CC:-cc}" prefill.c -std=c99 -D_DEFAULT_SOURCE
    compile decode "${CC:-cc}" decode.c -std=c99 -D_DEFAULT_SOURCE
    move decode
    if command -v "${CXX:-c++}" >/dev/null; then
        compile fetch "${CXX:-c++}" fetch.cpp -std=c++14
        move fetch
        grep -q '^0 bytes wrong' "$work/target.out" || fail "the page is wrong: $(cat "$work/target.out")"
    else
        echo "not compiled in C++: no compiler"
    fi
    tool status --scheduler "$scheduler" >"$work/status.out" || fail "kvrail status ended in $?"
    for pid in $prefill_pid $decode_pid $scheduler_pid; do
        kill "$pid"
        wait "$pid" || fail "SIGTERM ended a program with $?"
    done
}

if [ "$1" = user ]; then
    run_installed "$2"
else
    install_prefix "$1"
    verify_units
    run_as_user
    echo "e2e.install: passed"
fi
