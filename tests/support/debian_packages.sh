#!/bin/sh
# Takes packages from the mirror of Debian that apt uses, of another architecture or release than this system,
# and installs none of them.
#
#   sh tests/support/debian_packages.sh unpack RELEASE ARCHITECTURE FOLDER PACKAGE…
#   sh tests/support/debian_packages.sh source RELEASE FOLDER PACKAGE
#
# unpack  The packages and all that they need, in FOLDER/root. Its links stay within it.
# source  The newest source of one package, without Debian's patches, in FOLDER/source; FOLDER/version has its
#         version.
# FOLDER also keeps what was fetched: a second call fetches only what is newer.
# Exit 77 and a sentence: the packages are not to be had here.
set -eu
support=$(cd "$(dirname "$0")" && pwd)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

impossible() {
    echo "debian_packages.sh: $1"
    exit 77
}

mirror_of_apt() {
    # shellcheck disable=SC2016 # apt's own variable
    apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Component: main' 2>/dev/null | head -n 1
}

# own_apt ARGUMENT…: an apt that shares nothing with the system's but its network settings.
own_apt() { apt-get -q -c "$apt/apt.conf" "$@" </dev/null; }

# fetch_index TYPE RELEASE ARCHITECTURE: of the sources or the packages.
fetch_index() {
    command -v apt-get >/dev/null || impossible "this system has no apt-get"
    [ -r "$keyring" ] || impossible "there is no $keyring: install debian-archive-keyring"
    mirror=$(mirror_of_apt)
    if [ -z "$mirror" ]; then # apt has no lists yet
        sh "$support/install.sh" lists >/dev/null 2>&1 || true
        mirror=$(mirror_of_apt)
    fi
    [ -n "$mirror" ] || impossible "apt knows no mirror of Debian"
    mkdir -p "$apt/lists/partial" "$apt/archives/partial"
    : >"$apt/status"
    echo "$1 [signed-by=$keyring] $mirror $2 main" >"$apt/sources.list"
    cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "-";
Dir::State "$apt";
Dir::State::status "$apt/status";
Dir::Cache "$apt";
APT::Architecture "$3";
#clear APT::Architectures;
APT::Architectures { "$3"; };
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Retries "3";
Debug::NoLocking "true";
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
END
    own_apt update >"$apt/log" 2>&1 && ! grep -q '^[WE]: Failed' "$apt/log" ||
        impossible "$mirror has no $2 for $3: $(grep '^[EW]:' "$apt/log" | tail -n 1)"
}

# Debian's links between packages name places from the root of a system.
links_within() {
    find "$1" -type l -lname '/*' | while read -r link; do
        ln -sfn "$1$(readlink "$link")" "$link"
    done
}

unpack() {
    fetch_index deb "$1" "$2"
    shift 2
    own_apt install --yes --download-only "$@" >"$apt/log" 2>&1 ||
        impossible "the packages could not be fetched: $(grep '^[EW]:' "$apt/log" | tail -n 1)"
    own_apt autoclean >/dev/null
    ls "$apt"/archives/*.deb >"$folder/wanted"
    if [ -d "$folder/root" ] && cmp -s "$folder/wanted" "$folder/unpacked"; then
        return 0
    fi
    rm -rf "$folder/root" "$folder/unpacked"
    mkdir -p "$folder/root"
    while read -r file; do
        dpkg-deb -x "$file" "$folder/root"
    done <"$folder/wanted"
    links_within "$folder/root"
    mv "$folder/wanted" "$folder/unpacked"
}

source_of() {
    fetch_index deb-src "$1" "$(dpkg --print-architecture)"
    # A line has the place, the name, the size and the hash of a file.
    own_apt source --print-uris --tar-only "$2" >"$folder/wanted" 2>"$apt/log" ||
        impossible "there is no source of $2: $(grep '^[EW]:' "$apt/log" | tail -n 1)"
    version=$(sed -n "s/^[^ ]* $2_\(.*\)\.orig\.tar\.[a-z0-9]* .*/\1/p" "$folder/wanted")
    if [ -d "$folder/source" ] && [ "$(cat "$folder/version" 2>/dev/null)" = "$version" ]; then
        return 0
    fi
    rm -rf "$folder/files" "$folder/source" "$folder/version"
    mkdir "$folder/files" "$folder/source"
    (cd "$folder/files" && own_apt source --download-only --tar-only "$2") >"$apt/log" 2>&1 ||
        impossible "the source of $2 could not be fetched: $(grep '^[EW]:' "$apt/log" | tail -n 1)"
    tar -xf "$folder/files/$2_$version".orig.tar.* --strip-components=1 -C "$folder/source"
    echo "$version" >"$folder/version"
}

command=${1:-} release=${2:-}
case $command in
unpack) [ $# -ge 5 ] && place=$4 ;;
source) [ $# -eq 4 ] && place=$3 ;;
*) false ;;
esac || {
    sed -n '5,6s/^# *//p' "$0" >&2
    exit 2
}
mkdir -p "$place"
folder=$(cd "$place" && pwd)
apt=$folder/apt
case $command in
unpack)
    architecture=$3
    shift 4
    unpack "$release" "$architecture" "$@"
    ;;
source) source_of "$release" "$4" ;;
esac
