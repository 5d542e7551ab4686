#!/bin/sh
# Makes the bundle of the dashboard that the C build embeds.
#
#   sh web-ui/build.sh [FOLDER]
#
# FOLDER is web-ui/dist by default. Packages of package-lock.json are installed into build/web-ui, and types are
# checked, before anything is written. Needs Node 18.19 or later, and npm's registry where the packages are not
# installed yet; ends with 77 and says why where these are not to be had.
set -eu

out=${1:-}
case $out in '' | /*) ;; *) out=$(pwd)/$out ;; esac
cd "$(dirname "$0")"
out=${out:-$(pwd)/dist}
work=$(cd .. && pwd)/build/web-ui

command -v node >/dev/null && command -v npm >/dev/null || {
    echo "web-ui: skipped, there is no node and npm: install Debian's nodejs and npm"
    exit 77
}
mkdir -p "$work"
# Two at once would install into the same folder: the second waits for the first.
exec 9>"$work/lock"
flock 9
cp package.json package-lock.json tsconfig.json bundle.mjs "$work"
rm -rf "$work/src"
cp -R src "$work/src"
cd "$work"
if ! cmp -s package-lock.json node_modules/.installed; then
    # No script of a package runs: none of these needs one.
    npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >install.log 2>&1 || {
        if grep -qE 'ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|E403|E50[0-9]' install.log; then
            echo "web-ui: skipped, npm's registry is not reached: $(grep -m 1 -oE '(ENOTFOUND|EAI_AGAIN|E[A-Z0-9]+).*' install.log)"
            exit 77
        fi
        cat install.log
        exit 1
    }
    cp package-lock.json node_modules/.installed
fi
node_modules/.bin/tsc --project .
node bundle.mjs "$out"
