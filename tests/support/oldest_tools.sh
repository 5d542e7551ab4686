#!/bin/sh
# Configures with the oldest CMake that the build promises, and compiles the library and the programs with the
# oldest gcc: those of Ubuntu 22.04. pip installs that CMake, and everything lies in build/oldest.
# Exit 77 and a sentence: one of the two is not to be had here.
set -eu
cd "$(dirname "$0")/../.."
root=$(pwd)
work=$root/build/oldest
oldest() { sed -n "s/^$1  *\([0-9.]*\).*/\1/p" common/cmake/oldest.txt; }
cmake_version=$(oldest cmake).1
compiler=gcc-$(oldest gcc)

impossible() {
    echo "oldest: cannot run here: $1"
    exit 77
}

install_cmake() {
    [ "$("$work/venv/bin/cmake" --version 2>/dev/null | sed -n '1s/.* //p')" != "$cmake_version" ] || return 0
    mkdir -p "$work"
    python3 -m venv --clear "$work/venv" >"$work/install.log" 2>&1 ||
        impossible "python3 -m venv failed, the package python3-venv may be missing (build/oldest/install.log)"
    "$work/venv/bin/pip" install --retries 2 --only-binary :all: "cmake==$cmake_version" >>"$work/install.log" 2>&1 ||
        impossible "pip could not install CMake $cmake_version: $(tail -n 1 "$work/install.log")"
}

grep -q "^cmake_minimum_required(VERSION ${cmake_version%.*}[ .)]" CMakeLists.txt || {
    echo "oldest: CMakeLists.txt asks for another version of CMake than ${cmake_version%.*}, which this script tries"
    exit 1
}
command -v "$compiler" >/dev/null || impossible "there is no $compiler"
install_cmake
# With the lists of the tests, so that this CMake reads them too.
unset KVRAIL_LIBFABRIC_ROOT
"$work/venv/bin/cmake" --preset release -B "$work/build" -DCMAKE_C_COMPILER="$compiler" -DBUILD_TESTING=ON >"$work/configure.log" 2>&1 || {
    cat "$work/configure.log"
    exit 1
}
"$work/venv/bin/cmake" --build "$work/build" \
    --target kvr_client prefill-agent decode-agent kvrail-scheduler kvrail >"$work/build.log" 2>&1 || {
    tail -n 60 "$work/build.log"
    exit 1
}
