#!/usr/bin/env bash
# One run over several nodes, a process for each GPU. It saves before its time is over or when it is
# pre-empted, and goes back into the queue; so it does when a node is lost.
#
#   launch/slurm_nodes.sh [--dry-run] [--gpus=N] [--activate=FILE] [--data=DIR] [--raw=DIR]
#       [options of sbatch] -- flags of cgjax.main
#
#   launch/slurm_nodes.sh --nodes=2 --gpus=4 --partition=gpu --time=120 -- \
#       --config=sprites:orthogonal_star,paper
#
# --gpus: those of each node (default 1); 0 for one process a node without any. Run it from the
# folder that is to hold runs/.
# --activate: a file that each process sources first, such as .venv/bin/activate. --data, --raw: the
# folders CGJAX_DATA_DIR and CGJAX_RAW_DIR. PYTHON names another Python than `python`.
#
#SBATCH --job-name=cgjax
#SBATCH --requeue
#SBATCH --signal=TERM@120
#SBATCH --open-mode=append
#SBATCH --output=slurm-%j.out
set -euo pipefail
PYTHON=${PYTHON:-python}
# shellcheck source=launch/environment.bash
source "${CGJAX_LAUNCH:-$(dirname "$0")}/environment.bash"
MOST_LOSSES=5 # of nodes, until somebody should have a look

run_step() {
    local first code=0
    first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
    export PYTHON COORDINATOR="$first:$((20000 + SLURM_JOB_ID % 10000))"
    # The signal goes to the processes of the step. --wait: the last one may still be saving.
    trap '' TERM
    # shellcheck disable=SC2016  # each process expands its own numbers
    srun --kill-on-bad-exit=0 --wait=120 bash -c '
        trap - TERM
        export JAX_LOCAL_DEVICE_IDS=$SLURM_LOCALID
        exec "$PYTHON" -m cgjax.main "$@" \
            --coordinator="$COORDINATOR" --hosts="$SLURM_NTASKS" --host="$SLURM_PROCID"
    ' cgjax "$@" || code=$?
    # Not a job that was cancelled, nor one that Slurm itself has queued again: these end.
    [[ $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) == RUNNING ]] || exit "$code"
    if [[ $code -eq 3 ]] || [[ $code -eq 5 && ${SLURM_RESTART_COUNT:-0} -lt $MOST_LOSSES ]]; then
        echo "exit code $code: back into the queue"
        scontrol requeue "$SLURM_JOB_ID"
    fi
    exit "$code"
}

if [[ ${CGJAX_IN_JOB:-} ]]; then
    unset CGJAX_IN_JOB
    activate
    run_step "$@"
fi

dry="" gpus=1 options=()
while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
        --dry-run) dry=yes ;;
        --gpus=*) gpus=${1#*=} ;;
        --activate=* | --data=* | --raw=*) set_environment "$1" ;;
        --help | -h) sed -n '2,/^#SBATCH/p' "$0" | grep -v SBATCH; exit 0 ;;
        *) options+=("$1") ;;
    esac
    shift
done
if [[ $# -lt 2 || ! $gpus =~ ^[0-9]+$ ]]; then
    echo "slurm_nodes.sh: write --gpus=<number> and the flags of cgjax.main behind --" >&2
    exit 2
fi
shift
if [[ $gpus -gt 0 ]]; then
    # Not --gpus-per-task: it hides the GPUs of a node's other processes, which NCCL wants to see.
    options+=("--gres=gpu:$gpus" "--ntasks-per-node=$gpus")
else
    options+=(--ntasks-per-node=1)
fi
submit=(sbatch "--export=ALL,CGJAX_IN_JOB=1" "${options[@]}" "$0" "$@")
if [[ $dry ]]; then
    printf '%q ' "${submit[@]}"
    echo
else
    "${submit[@]}"
fi
