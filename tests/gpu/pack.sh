#!/bin/sh
# Makes a folder with the files of Debian's packages that a build of kvrail needs. It serves a machine with a
# GPU, a CUDA toolkit, cmake and a compiler, but no package registry. Run it where those packages are installed
# (tests/support/install.sh build test), on a system with a C library not newer than that machine's.
#
#   sh tests/gpu/pack.sh FOLDER
#
# The folder works at any path. Its size is at most 35 MiB.
set -eu

pack=${1:?folder}
packages="libcmocka-dev libcurl4-gnutls-dev libfabric-dev libhwloc-dev libinih-dev libjansson-dev
    libmicrohttpd-dev libprotobuf-c-dev libsqlite3-dev libuv1-dev libxxhash-dev libnuma-dev uthash-dev
    protobuf-c-compiler pkg-config pkgconf pkgconf-bin libpkgconf3"

rm -rf "$pack"
mkdir -p "$pack"

keep() {
    mkdir -p "$pack$(dirname "$1")"
    cp -P "$1" "$pack$1"
}

for package in $packages; do
    dpkg -L "$package" 2>/dev/null | grep -E '^/usr/(include|lib|bin|share/pkgconfig)/' |
        grep -vE '\.(a|la)$' | while read -r path; do
        if [ -L "$path" ] || [ -f "$path" ]; then keep "$path"; fi
    done
done
# Adds the libraries that these libraries and protoc-c load, except the C library: every machine has its own.
# They go to /usr/lib: on this machine /lib is a link to it, on the other perhaps not.
find "$pack/usr/lib" "$pack/usr/bin" \( -name '*.so*' -o -name 'protoc*' -o -name 'pkg*' \) |
    while read -r path; do ldd "${path#"$pack"}" 2>/dev/null || true; done |
    awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libutil|libgcc_s|libstdc\+\+)\.so' |
    while read -r path; do
        real=$(readlink -f "$path")
        mkdir -p "$pack/usr/lib/x86_64-linux-gnu"
        cp -L "$real" "$pack/usr/lib/x86_64-linux-gnu/$(basename "$path")"
    done
# A linker finds a library by the short name; a program loads it by its SONAME. Both must be there.
find "$pack/usr/lib" -name '*.so' | while read -r link; do
    real=$(readlink -f "${link#"$pack"}" || true)
    rm "$link"
    [ -f "$real" ] || continue
    name=$(objdump -p "$real" | awk '$1 == "SONAME" { print $2 }')
    cp -L "$real" "$(dirname "$link")/$name"
    [ "$name" = "$(basename "$link")" ] || ln -s "$name" "$link"
done
find "$pack/usr/lib" -type l ! -exec test -e {} \; -delete
# Nothing is linked statically, so the needs of static libraries are left out.
find "$pack" -name '*.pc' -exec sed -i '/^Requires.private/d' {} +
find "$pack" -name '*.so*' -type f -exec strip --strip-unneeded {} + 2>/dev/null || true

# Programs load the libraries of this folder, also where the machine has others of the same name.
mkdir -p "$pack/usr/libexec"
for program in "$pack"/usr/bin/*; do
    mv "$program" "$pack/usr/libexec/"
    cat >"$program" <<'END'
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
LD_LIBRARY_PATH=$here/lib/x86_64-linux-gnu exec "$here/libexec/$(basename "$0")" "$@"
END
    chmod +x "$program"
done
git -C "$(dirname "$0")" rev-parse --short HEAD >"$pack/commit" 2>/dev/null || true

bytes=$(du -sb "$pack" | cut -f1)
echo "$pack: $((bytes >> 20)) MiB"
[ "$bytes" -lt $((35 << 20)) ]
