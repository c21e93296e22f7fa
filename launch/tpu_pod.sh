#!/usr/bin/env bash
# One run on a TPU pod slice: the same command on every worker, through gcloud. JAX finds the other
# workers by itself. The first worker's disk holds runs/. Ctrl-C, or SIGTERM to this script, reaches
# the run on every worker: it saves and ends; the same command goes on.
#
#   launch/tpu_pod.sh [--dry-run] [--install] --name=TPU --zone=ZONE [--folder=DIR]
#       [--activate=FILE] [--data=DIR] [--raw=DIR] -- flags of cgjax.main
#
#   launch/tpu_pod.sh --install --name=mine --zone=us-central2-b -- --config=sprites:demo,paper
#
# --install copies this checkout to DIR (cgjax, in the home directory) on every worker and installs
# it there into DIR/.venv first. The slice must exist, and gcloud be logged in.
# --activate: a file on the workers that each of them sources first (DIR/.venv/bin/activate).
# --data, --raw: the folders CGJAX_DATA_DIR and CGJAX_RAW_DIR on the workers.
set -euo pipefail

dry="" install="" name="" zone="" folder=cgjax activate=.venv/bin/activate variables=""
while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
        --dry-run) dry=yes ;;
        --install) install=yes ;;
        --name=*) name=${1#*=} ;;
        --zone=*) zone=${1#*=} ;;
        --folder=*) folder=${1#*=} ;;
        --activate=*) activate=${1#*=} ;;
        --data=*) variables+=$(printf 'CGJAX_DATA_DIR=%q ' "${1#*=}") ;;
        --raw=*) variables+=$(printf 'CGJAX_RAW_DIR=%q ' "${1#*=}") ;;
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
on_workers=(gcloud compute tpus tpu-vm ssh "$name" "${on_all[@]}")
at=$(printf '%q' "$folder")
if [[ $install ]]; then
    here=$(cd "$(dirname "$0")/.." && pwd)
    run tar -C "$here" --exclude=.git --exclude=.venv --exclude=runs -czf /tmp/cgjax.tar.gz .
    run gcloud compute tpus tpu-vm scp /tmp/cgjax.tar.gz "$name:cgjax.tar.gz" "${on_all[@]}"
    unpack="mkdir -p $at && tar -C $at -xzf cgjax.tar.gz && python3 -m venv $at/.venv"
    run "${on_workers[@]}" "--command=$unpack && $at/.venv/bin/pip install -q -e ${at}'[tpu]'"
fi
flags=$(printf '%q ' "$@")
[[ $activate == */* ]] || activate=./$activate # `source` looks for a bare name in PATH
# The shell's number is the run's: exec keeps it.
command="cd $at && source $(printf '%q' "$activate") && echo \$\$ >cgjax.pid && "
command+="CGJAX_DISTRIBUTED=1 ${variables}exec python -m cgjax.main $flags"
if [[ $dry ]]; then
    run "${on_workers[@]}" "--command=bash -c $(printf '%q' "$command")"
    exit 0
fi
# A session of its own: a Ctrl-C would end gcloud, and leave the run on the workers alone.
setsid "${on_workers[@]}" "--command=bash -c $(printf '%q' "$command")" </dev/null &
child=$! code=0 asked=""
trap 'asked=yes; "${on_workers[@]}" "--command=kill -TERM \$(cat $at/cgjax.pid)" || true' INT TERM
wait "$child" || code=$?
# A signal ends `wait`, not the run: it is saving.
while [[ $asked ]]; do
    asked="" code=0
    wait "$child" || code=$?
done
exit "$code"
