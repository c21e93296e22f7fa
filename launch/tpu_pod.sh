#!/usr/bin/env bash
# One run on a TPU pod slice: the same command on every worker, through gcloud. JAX finds the other
# workers by itself. The first worker's disk holds runs/; stop with Ctrl-C, go on with the command.
#
#   launch/tpu_pod.sh [--dry-run] [--install] --name=TPU --zone=ZONE [--folder=DIR] -- flags of cgjax.main
#
#   launch/tpu_pod.sh --install --name=mine --zone=us-central2-b -- --config=sprites:demo,paper
#
# --install copies this checkout to DIR (cgjax, in the home directory) on every worker and installs
# it there into DIR/.venv first. The slice must exist, and gcloud be logged in.
set -euo pipefail

dry="" install="" name="" zone="" folder=cgjax
while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
        --dry-run) dry=yes ;;
        --install) install=yes ;;
        --name=*) name=${1#*=} ;;
        --zone=*) zone=${1#*=} ;;
        --folder=*) folder=${1#*=} ;;
        --help | -h) sed -n '2,/^set/p' "$0" | grep '^#'; exit 0 ;;
        *) echo "tpu_pod.sh: unknown option $1: --help names those there are" >&2; exit 2 ;;
    esac
    shift
done
if [[ $# -lt 2 || ! $name || ! $zone ]]; then
    echo "tpu_pod.sh: write --name, --zone and, behind --, the flags of cgjax.main" >&2
    exit 2
fi
shift

run() {
    if [[ $dry ]]; then
        printf '%q ' "$@"
        echo
    else
        "$@"
    fi
}
on_all=("--zone=$zone" --worker=all)
at=$(printf '%q' "$folder")
if [[ $install ]]; then
    here=$(cd "$(dirname "$0")/.." && pwd)
    run tar -C "$here" --exclude=.git --exclude=.venv --exclude=runs -czf /tmp/cgjax.tar.gz .
    run gcloud compute tpus tpu-vm scp /tmp/cgjax.tar.gz "$name:cgjax.tar.gz" "${on_all[@]}"
    unpack="mkdir -p $at && tar -C $at -xzf cgjax.tar.gz && python3 -m venv $at/.venv"
    run gcloud compute tpus tpu-vm ssh "$name" "${on_all[@]}" \
        "--command=$unpack && $at/.venv/bin/pip install -q -e ${at}'[tpu]'"
fi
flags=$(printf '%q ' "$@")
run gcloud compute tpus tpu-vm ssh "$name" "${on_all[@]}" \
    "--command=cd $at && CGJAX_DISTRIBUTED=1 .venv/bin/python -m cgjax.main $flags"
