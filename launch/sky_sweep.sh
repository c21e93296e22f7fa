#!/usr/bin/env bash
# A sweep through SkyPilot: a managed job of skypilot.yaml for each point, all in one bucket. A job
# whose machine is taken away starts again, and its point goes on from its checkpoint.
#
#   launch/sky_sweep.sh [--dry-run] --bucket=NAME [--activate=FILE] [--data=DIR] [--raw=DIR]
#       [options of sky jobs launch] -- flags of cgjax.sweep
#
#   launch/sky_sweep.sh --bucket=my-runs --gpus=H100:1 -- \
#       '--config=sprites:diagonal,random*,fast' --sweep.optim.lr=1e-3,3e-4
#
# --activate: a file that is sourced here first, such as .venv/bin/activate: cgjax counts the points.
# --data, --raw: the folders CGJAX_DATA_DIR and CGJAX_RAW_DIR on the machines. PYTHON names another
# Python than `python`. `sky jobs queue` says how the jobs stand.
set -euo pipefail
PYTHON=${PYTHON:-python}
# shellcheck source=launch/environment.bash
source "${CGJAX_LAUNCH:-$(dirname "$0")}/environment.bash"

dry="" bucket="" options=()
while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
        --dry-run) dry=yes ;;
        --bucket=*) bucket=${1#*=} ;;
        --activate=*) set_environment "$1" ;;
        --data=*) options+=(--env "DATA=${1#*=}") ;;
        --raw=*) options+=(--env "RAW=${1#*=}") ;;
        --help | -h) sed -n '2,/^set/p' "$0" | grep '^#'; exit 0 ;;
        *) options+=("$1") ;;
    esac
    shift
done
if [[ $# -lt 2 || ! $bucket ]]; then
    echo "sky_sweep.sh: write --bucket=NAME and, behind --, the flags of cgjax.sweep" >&2
    exit 2
fi
shift
activate
count=$("$PYTHON" -m cgjax.sweep "$@" --count)
flags=$(printf '%q ' "$@")
for ((index = 0; index < count; index++)); do
    command=(sky jobs launch --yes --detach-run "--name=cgjax-$index" "${options[@]}"
        --env "BUCKET=$bucket" --env "FLAGS=$flags" --env "INDEX=$index" "$CGJAX_LAUNCH/skypilot.yaml")
    if [[ $dry ]]; then
        printf '%q ' "${command[@]}"
        echo
    else
        "${command[@]}"
    fi
done
