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

"test_$part"
echo "build.$part: passed"
