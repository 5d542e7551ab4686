#!/bin/sh
# Links a libfabric that serves tcp alone and needs nothing but the C library, in a second, from the objects
# in Debian's libfabric.a. It has the SONAME of the shared library, and its symbols with their versions.
#
#   sh common/wheel/link_libfabric.sh CC LIBFABRIC.SO LIBFABRIC.A OUTPUT
set -eu
cc=$1 shared=$2 archive=$3 output=$4
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-libfabric.XXXXXX")
trap 'rm -rf "$work"' EXIT

broken() {
    echo "link_libfabric.sh: $1" >&2
    exit 1
}

[ -f "$archive" ] || broken "$archive is missing: install libfabric-dev, or a libfabric with --enable-static"
nm "$archive" >"$work/objects" 2>/dev/null || broken "nm cannot read $archive"
nm -D "$shared" >"$work/shared" || broken "nm cannot read $shared"

# Every provider but tcp's own for endpoints of kind RDM: xnet (called net) in 1.17, tcp from 1.18 on.
providers=$(sed -n 's/^ *U \(fi_[a-z0-9_]*_ini\)$/\1/p' "$work/objects" | sort -u)
wanted=fi_tcp_ini
case " $(echo "$providers" | tr '\n' ' ')" in
*" fi_xnet_ini "*) wanted=fi_xnet_ini ;;
*" fi_tcp_ini "*) ;;
*) broken "$archive has no provider of tcp" ;;
esac
absent=$(echo "$providers" | grep -vx "$wanted" | sed 's/.*/X(&)/' | tr '\n' ' ')

# A node for each version, in their order, each built on the one before.
sed -n 's/^[0-9a-f]* [TW] \([a-z_0-9]*\)@@*\(FABRIC_[0-9.]*\)$/\2 \1/p' "$work/shared" | sort -V |
    awk '$1 != node { if (node) print rest "}" base ";"; base = node ? " " node : ""
            rest = node ? "" : "local: *; "; node = $1; print node " { global:" }
        { print "    " $2 ";" }
        END { print rest "}" base ";" }' >"$work/symbols.map"

"$cc" -shared -fPIC -O2 -s "-DABSENT(X)=$absent" -o "$work/libfabric.so.1" "$here/tcp_only.c" \
    -Wl,-soname,libfabric.so.1 -Wl,--version-script="$work/symbols.map" -Wl,--gc-sections \
    -Wl,-z,now,-z,relro,-z,defs -Wl,-u,fi_getinfo "$archive" -l:libatomic.a ||
    broken "$archive cannot be linked for tcp alone"
needed=$(objdump -p "$work/libfabric.so.1" | awk '$1 == "NEEDED" { print $2 }' | grep -vE '^(libc|libm|ld-linux-.*)\.so' || true)
[ -z "$needed" ] || broken "it needs more than the C library: $needed"
mkdir -p "$(dirname "$output")"
mv "$work/libfabric.so.1" "$output"
