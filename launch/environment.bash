# The options --activate, --data and --raw of the scripts in this folder, which source this file.
# Inside a job Slurm runs a copy of a script, so CGJAX_LAUNCH names this folder there.

set_environment() { # one of the three options
    local path
    if ! path=$(realpath -e "${1#*=}" 2>/dev/null); then
        echo "$(basename "$0"): $1: there is no such file or folder" >&2
        exit 2
    fi
    case $1 in
        --activate=*) export CGJAX_ACTIVATE=$path ;;
        --data=*) export CGJAX_DATA_DIR=$path ;;
        --raw=*) export CGJAX_RAW_DIR=$path ;;
    esac
}

activate() { # the environment that --activate names
    [[ ${CGJAX_ACTIVATE:-} ]] || return 0
    set +u # activation scripts read variables that may be unset
    # shellcheck disable=SC1090
    source "$CGJAX_ACTIVATE"
    set -u
}

CGJAX_LAUNCH=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export CGJAX_LAUNCH
