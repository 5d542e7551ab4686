#!/bin/sh
# Makes a prefix with the libfabric of Debian 13 (2.x), for KVRAIL_LIBFABRIC_ROOT and `run.sh --libfabric`:
#
#   sh tests/support/debian13_libfabric.sh
#
# The last line names the prefix, in build/debian13. Debian 13's package needs a later C library than Debian 12
# has, so its source is compiled with this system's compiler: provider tcp alone, with a shared and a static
# library, in about a minute. It is made once for each version that Debian has.
# Exit 77 and a sentence: the source is not to be had here.
set -eu
cd "$(dirname "$0")/../.."
work=$(pwd)/build/debian13
prefix=$work/libfabric
log=$work/make.log

mkdir -p "$work"
status=0
said=$(sh tests/support/debian_packages.sh source trixie "$work" libfabric 2>&1) || status=$?
[ $status = 0 ] || {
    echo "$said"
    exit $status
}
compiler=${CC:-gcc}
for tool in "$compiler" make autoreconf automake libtoolize; do
    command -v "$tool" >/dev/null || {
        echo "debian13_libfabric.sh: there is no $tool"
        exit 77
    }
done

# What makes other bytes: the source, the compiler and these options.
options="--enable-only --enable-tcp --enable-shared --enable-static --with-pic --disable-silent-rules"
made="$(cat "$work/version") $("$compiler" -dumpfullversion -dumpmachine | tr '\n' ' ')$options"
if [ "$(cat "$prefix/made" 2>/dev/null)" != "$made" ]; then
    rm -rf "$prefix" "$work/objects"
    mkdir "$work/objects"
    # shellcheck disable=SC2086 # a list of options
    (
        cd "$work/objects"
        (cd ../source && sh autogen.sh)
        ../source/configure --prefix="$prefix" $options CC="$compiler" CFLAGS="-O2 -DNDEBUG"
        make -j "$(nproc)" install
    ) >"$log" 2>&1 </dev/null || {
        tail -n 60 "$log"
        exit 1
    }
    # A wheel with this library carries its licence.
    mkdir -p "$prefix/share/doc/libfabric"
    cp "$work/source/COPYING" "$prefix/share/doc/libfabric/copyright"
    rm -rf "$work/objects"
    echo "$made" >"$prefix/made"
fi
echo "$prefix"
