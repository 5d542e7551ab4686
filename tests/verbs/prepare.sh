#!/bin/sh
# Makes what the VM boots from, once: Debian's kernel and a small initial file system with the modules
# that it needs. Prints the folder; exit 77 and a sentence on stderr when there can be none here.
#
# The folder lies in the user's cache, named after the kernel package, its version and everything else
# that went into it. The kernel is the one that linux-image-amd64 depends on today.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvrail

# Loaded in this order, each after what it depends on: the root file system and the way out first, then
# what rails are made of. crc32 is rdma_rxe's, which asks for it too late to be found here.
modules="virtio_pci virtio_console virtio_rng virtio_net 9pnet_virtio 9p overlay
    crc32_generic veth bridge rdma_rxe rdma_ucm"

impossible() {
    echo "verbs: no VM here: $1" >&2
    exit 77
}

kernel_package() {
    apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: *\(linux-image-.*\)/\1/p' |
        head -n 1
}

# apt's lists are fetched only where they do not know the kernel.
resolve_kernel() {
    package=$(kernel_package)
    if [ -z "$package" ]; then
        sh "$here/../support/install.sh" lists >&2 || true
        package=$(kernel_package)
    fi
    [ -n "$package" ] || impossible "apt knows no kernel behind linux-image-amd64"
    version=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: *//p')
}

# The compressed kernel inside a bzImage: its place and length stand in the header; its last four bytes
# are a length again. An ELF file boots without the decompressor, which would have to be emulated.
extract_kernel() {
    sectors=$(od -An -tu1 -j497 -N1 "$1" | tr -d ' ')
    [ "$sectors" != 0 ] || sectors=4
    # shellcheck disable=SC2046 # two numbers
    set -- "$1" "$2" $(od -An -tu4 -j584 -N8 "$1")
    tail -c +$(((sectors + 1) * 512 + $3 + 1)) "$1" | head -c "$4" >"$2.payload"
    case $(od -An -tx1 -N4 "$2.payload" | tr -d ' ') in
    fd377a58) xz -dc --single-stream <"$2.payload" >"$2" ;;
    28b52ffd) zstd -dcq <"$2.payload" >"$2" 2>/dev/null || true ;; # objects to the length behind
    *) impossible "the kernel of $package is compressed in a way unknown here" ;;
    esac
    rm "$2.payload"
    [ "$(od -An -tx1 -N4 "$2" | tr -d ' ')" = 7f454c46 ] ||
        impossible "the kernel of $package was not found in its image"
}

# make_files UNPACKED_KERNEL: /init, busybox and the modules, each after those it needs.
make_files() {
    mkdir -p "$work/files/bin" "$work/files/modules"
    cp /bin/busybox "$work/files/bin/busybox"
    cp "$here/init.sh" "$work/files/init"
    chmod 755 "$work/files/init"
    [ -e "$1/lib" ] || ln -s usr/lib "$1/lib"
    release=$(ls "$1/lib/modules")
    depmod -b "$1" "$release"
    for module in $modules; do
        modprobe -d "$1" -S "$release" --show-depends "$module" ||
            impossible "$package has no module $module"
    done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++' | while read -r path; do
        name=$(basename "$path" .xz)
        case $path in
        *.xz) xz -dc "$path" >"$work/files/modules/$name" ;;
        *) cp "$path" "$work/files/modules/$name" ;;
        esac
        echo "$name" >>"$work/files/modules/order"
    done
    (cd "$work/files" && find . | cpio -o -H newc --quiet) >"$work/made/initrd"
}

resolve_kernel
inputs=$({
    dpkg-query -W busybox-static
    cat "$here/prepare.sh" "$here/init.sh"
} | sha256sum | cut -c 1-12)
made=$cache/verbs-$package-$version-$inputs
if [ ! -e "$made/initrd" ]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/making.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkdir "$work/made"
    echo "verbs: fetching $package $version" >&2
    chmod 755 "$work"
    (cd "$work" && apt-get -q -o Acquire::Retries=3 -o APT::Sandbox::User=root \
        download "$package" >"$work/download.log" 2>&1 </dev/null) ||
        impossible "the kernel could not be fetched: $(tail -n 1 "$work/download.log")"
    dpkg-deb -x "$work/$package"_*.deb "$work/unpacked"
    extract_kernel "$work"/unpacked/boot/vmlinuz-* "$work/made/vmlinux"
    make_files "$work/unpacked"
    rm -rf "$cache"/verbs-*
    mv "$work/made" "$made"
fi
echo "$made"
