#!/bin/sh
# Compiles the library and the programs for arm64, with Debian's compiler and Debian's packages for that
# processor, which are unpacked in build/arm64. Nothing of it runs here.
# Exit 77 and a sentence: the compiler or the packages are not to be had here.
set -eu
cd "$(dirname "$0")/../.."
work=$(pwd)/build/arm64
programs="prefill-agent decode-agent kvrail-scheduler kvrail-filter kvrail"

impossible() {
    echo "arm64: cannot run here: $1"
    exit 77
}
failed() {
    tail -n 60 "$1"
    exit 1
}

compiler=aarch64-linux-gnu-gcc
command -v $compiler >/dev/null || impossible "there is no $compiler: install gcc-aarch64-linux-gnu"
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mkdir -p "$work"
status=0
sh tests/support/debian_packages.sh unpack "$release" arm64 "$work" libc6-dev libfabric-dev libuv1-dev \
    libprotobuf-c-dev libjansson-dev libxxhash-dev uthash-dev libinih-dev libsqlite3-dev libpq-dev libmicrohttpd-dev \
    libdeflate-dev libzstd-dev libgnutls28-dev nettle-dev libmnl-dev libhwloc-dev libcurl4-gnutls-dev >"$work/packages.log" 2>&1 || status=$?
[ $status != 77 ] || impossible "$(tail -n 1 "$work/packages.log")"
[ $status = 0 ] || failed "$work/packages.log"

# Code for GPUs is checked below: CMake would want a toolkit for arm64.
unset KVRAIL_LIBFABRIC_ROOT
cmake --preset release -B "$work/build" --toolchain tests/support/arm64.cmake -DBUILD_TESTING=OFF \
    -DKVRAIL_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 \
    >"$work/configure.log" 2>&1 || failed "$work/configure.log"
cmake --build "$work/build" >"$work/build.log" 2>&1 || failed "$work/build.log"
for file in bin/prefill-agent bin/decode-agent bin/kvrail-scheduler bin/kvrail-filter bin/kvrail lib/libkvrail.so.1; do
    readelf -h "$work/build/$file" | grep -q 'Machine: *AArch64' || {
        echo "arm64: $file is not for arm64"
        exit 1
    }
done

# The code for GPUs, where a toolkit is: its headers are the same for every processor.
cuda=
for folder in "${CUDA_PATH:-}" /usr/local/cuda; do
    [ -z "$folder" ] || [ ! -f "$folder/include/cuda.h" ] || cuda=$folder/include
done
if [ -z "$cuda" ]; then
    echo "arm64: no CUDA toolkit: the code for GPUs was not compiled"
    exit 0
fi
for file in $(grep -rlE 'KVRAIL_HAVE_CUDA|cuda_driver\.h' --include='*.c' common prefill-agent decode-agent scheduler); do
    $compiler --sysroot="$work/root" -std=gnu17 -D_GNU_SOURCE -DKVRAIL_HAVE_CUDA=1 -O2 -Wall -Wextra -Wshadow \
        -Werror -fsyntax-only -I. -Icommon -isystem "$work/build/generated" -isystem "$cuda" "$file"
done
