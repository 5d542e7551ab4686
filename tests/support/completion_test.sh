#!/bin/sh
# Goal: bash completes commands, options and values of kvrail from the script that the build made; zsh and fish
# take theirs, where they are installed. Argument: the folder of the scripts.
set -eu
scripts=${1:?usage: completion_test.sh FOLDER}
command -v bash >/dev/null || { echo "completion: skipped, there is no bash"; exit 77; }
fail() { echo "completion: $*"; exit 1; }

# bash_says WORDS WORD…: these are all the completions of the last word, as bash calls the function.
bash_says() {
    said=$(bash -c 'source "$1"
        [[ $(complete -p kvrail) == *"-F _kvrail kvrail" ]] || exit 1
        shift
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _kvrail kvrail "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        echo "${COMPREPLY[*]}"' bash "$scripts/kvrail.bash" "$@") || fail "bash ended in $?"
    [ "$said" = "$wanted" ] || fail "bash completes '$*' to '$said', not '$wanted'"
}

wanted="status" bash_says kvrail sta
wanted="ping plan post push" bash_says kvrail bench p
wanted="--check" bash_says kvrail status --che
wanted="--scatter" bash_says kvrail bench push --sc
wanted="--no-scatter" bash_says kvrail bench push --page-bytes 64k --no-sc
wanted="tcp local" bash_says kvrail bench push --provider ""
wanted="debug" bash_says kvrail why --log-level = d
wanted="bash zsh fish" bash_says kvrail completion ""
wanted="" bash_says kvrail status --config "" # files, which bash completes itself
wanted="" bash_says kvrail why ""

# Each option of --help is completed.
for command in status why topo "bench push" "certificates issue"; do
    # shellcheck disable=SC2086 # words of a command
    for option in $("$KVRAIL_BIN_DIR/kvrail" $command --help | sed -n 's/^  --\(\[no-\]\)*\([a-z-]*\).*/--\2/p'); do
        # shellcheck disable=SC2086
        bash -c 'source "$1"; _kvrail_options "$2"' bash "$scripts/kvrail.bash" "$command" | tr ' ' '\n' |
            grep -qx -- "$option" || fail "bash does not know $option of $command"
    done
done

"$KVRAIL_BIN_DIR/kvrail" completion bash | cmp - "$scripts/kvrail.bash" || fail "kvrail completion prints another script"
status=0
"$KVRAIL_BIN_DIR/kvrail" completion csh >/dev/null 2>&1 || status=$?
[ $status = 2 ] || fail "an unknown shell ended in $status"

if command -v zsh >/dev/null; then
    said=$(zsh -f -c 'compdef() { : }; compadd() { print -r -- "${@[2,-1]}" }
        source $1; words=(kvrail bench ""); CURRENT=3; _kvrail' zsh "$scripts/kvrail.zsh")
    case $said in "beside calibrate "*) ;; *) fail "zsh completes 'kvrail bench ' to '$said'" ;; esac
fi
if command -v fish >/dev/null; then
    home=$(mktemp -d /tmp/kvrail-completion-XXXXXX) # fish writes there
    trap 'rm -rf "$home"' EXIT
    said=$(HOME=$home XDG_CONFIG_HOME=$home XDG_DATA_HOME=$home fish --no-config -c "source '$scripts/kvrail.fish'; complete -C 'kvrail status --che'" 2>/dev/null)
    case $said in "--check"*) ;; *) fail "fish completes 'kvrail status --che' to '$said'" ;; esac
fi
echo "completion: passed"
