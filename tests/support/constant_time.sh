#!/bin/sh
# constant_time.sh LIBRARY: proofs are compared by nettle's function, and by none that stops early.
set -eu
called=$(nm --undefined-only --format=posix "$1" | sed 's/ .*//')
for function in memcmp bcmp strcmp strncmp; do
    if printf '%s\n' "$called" | grep -qx "$function"; then
        echo "$1 calls $function: its time would show where two proofs differ" >&2
        exit 1
    fi
done
printf '%s\n' "$called" | grep -qx nettle_memeql_sec
