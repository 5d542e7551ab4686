#!/bin/sh
# Goal: what cmake cannot do as it was asked, it refuses with a sentence; what it leaves out, it says in a line.
# Method: this project is configured with a toolkit, or a libfabric, that is missing, too old or broken.
# Arguments: cuda or libfabric, cmake.
set -eu
part=$1 cmake=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-configure.XXXXXX")
trap 'rm -rf "$work"' EXIT
unset KVRAIL_LIBFABRIC_ROOT CUDAToolkit_ROOT CUDA_PATH

# configure ARGUMENT…: cmake's output, with lines joined as they were before cmake folded them.
configure() {
    code=0
    "$cmake" -S "$KVRAIL_ROOT_DIR" -B "$work/build" -G Ninja -DBUILD_TESTING=OFF "$@" >"$work/lines" 2>&1 || code=$?
    tr -s ' \n' ' ' <"$work/lines" >"$work/said"
}

# says WORDS…
says() {
    for words in "$@"; do
        grep -qF -- "$words" "$work/said" || { echo "'$words' is not in:" && cat "$work/lines" && exit 1; }
    done
}

# refused WORDS… and accepted WORDS…: after configure.
refused() {
    [ $code -ne 0 ] || { echo "accepted; expected: $*" && cat "$work/lines" && exit 1; }
    says "$@"
}
accepted() {
    [ $code -eq 0 ] || { echo "refused; expected: $*" && cat "$work/lines" && exit 1; }
    says "$@"
}

test_cuda() {
    # A toolkit of CUDA 11.8, as far as cmake looks.
    mkdir -p "$work/cuda/bin" "$work/cuda/include" "$work/cuda/lib64"
    printf '#!/bin/sh\necho "Cuda compilation tools, release 11.8, V11.8.89"\n' >"$work/cuda/bin/nvcc"
    chmod +x "$work/cuda/bin/nvcc"
    touch "$work/cuda/include/cuda_runtime.h" "$work/cuda/lib64/libcudart.so"
    none=-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON

    configure -DKVRAIL_CUDA=ON $none
    refused 'KVRAIL_CUDA is ON, but no CUDA toolkit was found' 'Version 12.0 or later is needed: set CUDAToolkit_ROOT'
    configure -DKVRAIL_CUDA=ON -UCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit -DCUDAToolkit_ROOT="$work/cuda"
    refused "KVRAIL_CUDA is ON, but the CUDA toolkit in $work/cuda/bin is 11.8.89. Version 12.0 or later is needed"
    configure -DKVRAIL_CUDA=AUTO
    accepted "CUDA: the CUDA toolkit in $work/cuda/bin is 11.8.89; 12.0 or later is needed: GPU memory is left out"
    configure -DKVRAIL_CUDA=AUTO $none
    accepted 'CUDA: no CUDA toolkit was found' 'GPU memory is left out (KVRAIL_CUDA=ON makes this an error)'
    [ "$(grep -ci cuda "$work/lines")" = 1 ] || { echo "more than one line about CUDA:" && cat "$work/lines" && exit 1; }
    configure -DKVRAIL_CUDA=OFF
    accepted 'CUDA: left out, because KVRAIL_CUDA is OFF'
    configure -DKVRAIL_CUDA=perhaps
    refused "KVRAIL_CUDA is 'perhaps'; allowed: AUTO, ON, OFF"
}

# prefix NAME [MINOR]: one with the headers and the library of the system. The headers say 1.MINOR.
prefix() {
    mkdir -p "$work/$1/include/rdma" "$work/$1/lib/pkgconfig"
    cp -r "$headers"/rdma/fi_*.h "$headers/rdma/fabric.h" "$headers/rdma/providers" "$work/$1/include/rdma/"
    cp "$library" "$work/$1/lib/libfabric.so.1"
    # As an installation has it: pkg-config believes that all is there.
    printf 'Name: libfabric\nDescription: x\nVersion: 1.17.0\nCflags: -I%s\nLibs: -L%s -lfabric\n' \
        "$work/$1/include" "$work/$1/lib" >"$work/$1/lib/pkgconfig/libfabric.pc"
    [ $# = 1 ] || sed -i "s/^\(#define FI_MINOR_VERSION\) .*/\1 $2/; s/^\(#define FI_MAJOR_VERSION\) .*/\1 1/" \
        "$work/$1/include/rdma/fabric.h"
}
# given NAME: configured with that prefix.
given() { configure -DKVRAIL_LIBFABRIC_ROOT="$work/$1"; }
broken() {
    refused "KVRAIL_LIBFABRIC_ROOT is '$work/$1', but $2" 'Set it to the prefix where libfabric 1.17 or later is'
}

# no_wheel WORDS: for the target wheel nothing is compiled, and it says what to do.
no_wheel() {
    code=0
    "$cmake" --build "$work/build" --target wheel >"$work/lines" 2>&1 || code=$?
    cp "$work/lines" "$work/said"
    refused "$1" 'sh tests/support/debian13_libfabric.sh` makes one' '-DKVRAIL_LIBFABRIC_ROOT=PREFIX takes another'
    compiled=$(find "$work/build" -name '*.o' ! -path '*/CMakeFiles/[0-9]*')
    [ -z "$compiled" ] || { echo "compiled all the same: $compiled" && exit 1; }
}

test_libfabric() {
    headers=$(pkg-config --variable=includedir libfabric)
    library=$(pkg-config --variable=libdir libfabric)/libfabric.so.1
    [ -e "$library" ] && [ -e "$headers/rdma/fabric.h" ] || { echo "the system has no libfabric" && exit 77; }

    given nowhere
    broken nowhere 'there is no such folder'
    prefix headless
    rm "$work/headless/include/rdma/fabric.h"
    given headless
    broken headless 'it has no include/rdma/fabric.h'
    prefix bare
    rm "$work/bare/lib/libfabric.so.1"
    given bare
    broken bare 'it has no libfabric.so.1 in lib or lib64'
    prefix text
    echo text >"$work/text/lib/libfabric.so.1"
    given text
    broken text "$(sed -n 's/^CMAKE_NM:.*=//p' "$work/build/CMakeCache.txt") -D $work/text/lib/libfabric.so.1 shows no version"
    prefix old 11
    given old
    broken old 'its headers are of libfabric 1.11.'
    prefix almost 19
    given almost
    no_wheel "wheel: this build has libfabric 1.19.0 of $work/almost, and a wheel needs 1.20 or later: "
    prefix shared 20
    given shared
    no_wheel "wheel: there is no $work/shared/lib/libfabric.a, and a wheel is linked from a libfabric that was"
    configure -DKVRAIL_LIBFABRIC_ROOT=somewhere/else
    refused 'somewhere/else' 'there is no such folder'

    # By the option and by the environment; then the system's again.
    prefix whole
    given whole
    taken "$work/whole"
    prefix other
    export KVRAIL_LIBFABRIC_ROOT="$work/other"
    configure -DKVRAIL_LIBFABRIC_ROOT=
    taken "$work/other"
    unset KVRAIL_LIBFABRIC_ROOT
    configure
    taken "$work/other"
    configure -DKVRAIL_LIBFABRIC_ROOT=
    accepted 'libfabric 1.' "from $(pkg-config --variable=prefix libfabric)"
    ! grep -qF "$work/other" "$work/build/build.ninja" || { echo "a path of the other libfabric is left" && exit 1; }
}
# taken PREFIX: its headers are before all others of libfabric, and programs look for the library there.
taken() {
    accepted "from $1"
    grep -qF -- "-isystem $1/include" "$work/build/build.ninja" || { echo "no headers of $1" && exit 1; }
    grep -qF -- "-rpath,$1/lib" "$work/build/build.ninja" || { echo "programs do not look in $1/lib" && exit 1; }
}

"test_$part"
echo "build.$part: passed"
