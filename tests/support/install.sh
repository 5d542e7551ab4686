#!/bin/sh
# Installs the Debian packages that are missing, and says nothing when none is.
#
#   sh tests/support/install.sh SET…
#
# build  what compiles and runs the programs
# test   what the tests and checks need on top
# verbs  what the VM of tests/verbs needs
# wheel  what builds the wheel and tries it
# lists  no package: fetches apt's lists
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
missing=

has_package() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# package PACKAGE…: any one of them will do; the first is installed.
package() {
    for name in "$@"; do
        if has_package "$name"; then
            return 0
        fi
    done
    missing="$missing $1"
}

# program COMMAND PACKAGE: a program from elsewhere will do, and may conflict with the package.
program() {
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}

# optional COMMAND PACKAGE: not every release has it. A check that needs it says so where it is missing.
optional() {
    ! command -v "$1" >/dev/null 2>&1 || return 0
    apt-cache show gcc >/dev/null 2>&1 || update # apt has no lists yet
    ! apt-cache show "$2" >/dev/null 2>&1 || missing="$missing $2"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
    else
        sudo env DEBIAN_FRONTEND=noninteractive "$@" </dev/null
    fi
}

update() {
    if [ -z "${updated:-}" ]; then
        as_root apt-get -q -o Acquire::Retries=3 update
        updated=yes
    fi
}

set_build() {
    program gcc gcc
    program cmake cmake
    program ninja ninja-build
    program pkg-config pkg-config
    package libc6-dev
    package protobuf-c-compiler
    package libfabric-dev
    package libuv1-dev
    package libprotobuf-c-dev
    package libjansson-dev
    package libxxhash-dev
    package uthash-dev
    package libinih-dev
    package libsqlite3-dev
    package libpq-dev
    package libmicrohttpd-dev
    package libdeflate-dev
    package libzstd-dev
    package libgnutls28-dev
    package nettle-dev
    package libmnl-dev
    package libhwloc-dev
    package libcurl4-gnutls-dev libcurl4-openssl-dev libcurl4-nss-dev
}

# What compiles Debian's source of a library.
set_source() {
    program autoreconf autoconf
    program automake automake
    program libtoolize libtool
    program make make
}

# A server for the tests, each of which starts its own: none is made now.
set_postgres() {
    if ! ls -d /usr/lib/postgresql/*/bin >/dev/null 2>&1; then
        as_root sh -c 'mkdir -p /etc/postgresql-common && cd /etc/postgresql-common && { [ -e createcluster.conf ] ||
            echo "create_main_cluster = false" >createcluster.conf; }'
        missing="$missing postgresql"
    fi
}

set_test() {
    set_source
    program clang clang
    program clang-format clang-format
    program clang-tidy clang-tidy
    program llvm-symbolizer llvm
    program cppcheck cppcheck
    program patchelf patchelf
    program codespell codespell
    program python3 python3
    package python3-yaml
    # The stage engines makes a virtual environment.
    python3 -c 'import ensurepip' 2>/dev/null || missing="$missing python3-venv"
    program curl curl
    program bash bash
    program mandoc mandoc
    program sqlite3 sqlite3
    set_postgres
    program git git
    program openssl openssl
    program g++ g++
    optional gcc-11 gcc-11
    optional aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
    program chromium chromium
    program node nodejs
    program npm npm
    program systemd-analyze systemd
    program ip iproute2
    package nftables
    package libcmocka-dev
    package libclang-rt-14-dev libclang-rt-dev
}

set_verbs() {
    program qemu-system-x86_64 qemu-system-x86
    package busybox-static
    program modprobe kmod
    program cpio cpio
    program xz xz-utils
    program zstd zstd
    program ip iproute2
    package ibverbs-providers
    package librdmacm-dev
}

set_wheel() {
    set_build
    set_source
    program python3 python3
    program dpkg dpkg
    program patchelf patchelf
    program mmdebstrap mmdebstrap
    python3 -m ensurepip --version >/dev/null 2>&1 || missing="$missing python3-venv"
}

# The package of Prometheus would start a service: only its programs are taken.
unpack_prometheus() {
    if [ -x "$root/build/tools/promtool" ] && [ -x "$root/build/tools/prometheus" ]; then
        return 0
    fi
    update
    work=$(mktemp -d)
    chmod 755 "$work"
    if [ "$(id -u)" -eq 0 ]; then
        chown _apt "$work" 2>/dev/null || true
    fi
    (cd "$work" && apt-get -q -o Acquire::Retries=3 download prometheus </dev/null)
    dpkg-deb -x "$work"/prometheus_*.deb "$work/unpacked"
    mkdir -p "$root/build/tools"
    cp "$work/unpacked/usr/bin/promtool" "$work/unpacked/usr/bin/prometheus" "$root/build/tools/"
    rm -rf "$work"
}

for set in "$@"; do
    case $set in
    build) set_build ;;
    test) set_test ;;
    verbs) set_verbs ;;
    wheel) set_wheel ;;
    lists) update ;;
    *)
        echo "install.sh: there is no set '$set'; there are build, test, verbs, wheel and lists" >&2
        exit 2
        ;;
    esac
done
if [ -n "$missing" ]; then
    echo "Installing:$missing"
    update
    # shellcheck disable=SC2086 # a list of names
    as_root apt-get -q -y -o Acquire::Retries=3 install --no-install-recommends $missing
fi
case " $* " in
*" test "*) unpack_prometheus || echo "promtool could not be unpacked: its test will be skipped" >&2 ;;
esac
