# Completion of nodeclaimd and nodeclaim-controller in bash. It knows no command and no option: it asks the program, whose help is
# printed from the tables that it parses by.

# Options of a command as lines "NAME ARGUMENT"; the argument is empty where there is none.
_nodeclaimd_options() {
    "$1" "$2" --help 2>/dev/null | sed -n 's/^  --\([a-z-]*\) \([^ ]*\).*/\1 \2/p'
}

# Words for an argument as help names it: a|b is a or b, a capital letter describes what it is.
_nodeclaimd_values() {
    case $1 in
    *FILE* | *ROOT* | *URL*)
        compopt -o filenames
        compgen -f -- "$2"
        ;;
    *DIR*)
        compopt -o filenames
        compgen -d -- "$2"
        ;;
    *[A-Z]*) ;;
    *) compgen -W "${1//|/ }" -- "$2" ;;
    esac
}

_nodeclaimd() {
    local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]} current=${COMP_WORDS[COMP_CWORD]}
    local before=${COMP_WORDS[COMP_CWORD - 1]} name argument options

    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 && $current != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p')" -- "$current")
        return
    fi
    [[ $command != -* ]] || command=run # what nodeclaim-controller does without a command
    options=$(_nodeclaimd_options "$program" "$command")
    if [[ $current == = ]]; then # --option=VALUE comes as three words
        current=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    [[ $before != -o ]] || before=--output
    while read -r name argument; do
        if [[ $before == "--$name" && -n $argument ]]; then
            mapfile -t COMPREPLY < <(_nodeclaimd_values "$argument" "$current")
            return
        fi
    done <<<"$options"
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(sed 's/^\([^ ]*\).*/--\1/' <<<"$options")" -- "$current")
    else
        argument=$("$program" "$command" --help 2>/dev/null | sed -n '1s/.*\[OPTION\.\.\.\] //p')
        [[ $argument != *FILE* ]] || mapfile -t COMPREPLY < <(_nodeclaimd_values "$argument" "$current")
    fi
}

complete -F _nodeclaimd nodeclaimd nodeclaim-controller
