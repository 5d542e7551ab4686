#!/bin/sh
# Goal: systemd understands every unit, and each leaves its program few rights: what systemd calls its exposure
# (0.0 to 10.0) stays below a bound. A right that is left on has its reason in the unit.
# Method: the units as `cmake --install` writes them, with a program that is there; systemd-analyze, offline.
set -eu
root=${KVRAIL_ROOT_DIR:?}
command -v systemd-analyze >/dev/null || { echo "there is no systemd-analyze: install the package systemd" >&2; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/kvrail-units.XXXXXX")
trap 'rm -rf "$work"' EXIT
failed=0

wrong() {
    echo "FAILED: $*" >&2
    failed=1
}

# check UNIT BOUND: the bound in tenths.
check() {
    unit="$work/$(basename "$1" .in | sed 's/@\./@x./')"
    sed -e "s,@KVRAIL_BIN_DIR@/[a-z-]*,$(command -v true),; s,@KVRAIL_DOC_DIR@,$root," "$1" >"$unit"
    systemd-analyze verify --man=no "$unit" >"$work/out" 2>&1 || true
    if grep "^$unit" "$work/out"; then wrong "systemd finds fault with $1"; fi
    systemd-analyze security --offline=yes --no-pager --threshold="$2" "$unit" >"$work/out" 2>&1 ||
        wrong "$1 leaves its program too many rights: $(cat "$work/out")"
    # An option that systemd does not know is only a warning there.
    tail -n 1 "$work/out"
    grep -q '^NoNewPrivileges=yes' "$unit" || wrong "$1 lets its program gain rights"
}

# Without a sandbox a unit fails, else this test could not fail.
refuses_bare_units() {
    printf '[Service]\nExecStart=%s\nNoNewPrivileges=yes\n' "$(command -v true)" >"$work/bare.service"
    if systemd-analyze security --offline=yes --no-pager --threshold=20 "$work/bare.service" >"$work/out" 2>&1; then
        wrong "a unit without a sandbox is within the bound"
    fi
}

refuses_bare_units
check "$root/prefill-agent/kvrail-prefill@.service.in" 17
check "$root/decode-agent/kvrail-decode@.service.in" 17
check "$root/scheduler/kvrail-scheduler.service.in" 12
check "$root/common/filter/kvrail-filter.service.in" 11
[ $failed = 0 ] || exit 1
echo "build.units: passed"
