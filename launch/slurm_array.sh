#!/usr/bin/env bash
# A sweep as one Slurm array, a task for each point. A task that is told to stop, by a time limit or
# by pre-emption, saves and goes back into the queue; there it goes on from its checkpoint.
#
#   launch/slurm_array.sh [--dry-run] [--at-once=N] [--activate=FILE] [--data=DIR] [--raw=DIR]
#       [options of sbatch] -- flags of cgjax.sweep
#
#   launch/slurm_array.sh --at-once=8 --partition=gpu --gres=gpu:1 --time=60 -- \
#       '--config=sprites:diagonal,random*,fast' --sweep.optim.lr=1e-3,3e-4
#
# Run it from the folder that is to hold runs/, on a disk that all nodes see. Afterwards the sweep's
# own command with --dry_run says how the points stand.
# --activate: a file that each process sources first, such as .venv/bin/activate. --data, --raw: the
# folders CGJAX_DATA_DIR and CGJAX_RAW_DIR. PYTHON names another Python than `python`.
#
#SBATCH --job-name=cgjax
#SBATCH --requeue
#SBATCH --signal=B:TERM@120
#SBATCH --open-mode=append
#SBATCH --output=slurm-%A_%a.out
set -euo pipefail
PYTHON=${PYTHON:-python}
# shellcheck source=launch/environment.bash
source "${CGJAX_LAUNCH:-$(dirname "$0")}/environment.bash"

run_task() {
    local child code=0
    [[ ${SLURM_CPUS_PER_TASK:-} ]] && export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
    # A step, not this shell: pre-emption warns the processes of steps, a time limit this shell.
    srun --ntasks=1 "$PYTHON" -m cgjax.sweep "$@" --index="$SLURM_ARRAY_TASK_ID" &
    child=$!
    asked=""
    trap 'asked=yes; scancel --signal=TERM "$SLURM_JOB_ID" || true' TERM USR1
    wait "$child" || code=$?
    # A signal ends `wait`, not the child: it is saving.
    while [[ $asked && $code -gt 128 ]]; do
        asked="" code=0
        wait "$child" || code=$?
    done
    # Not a job that was cancelled, nor one that Slurm itself has queued again: these end.
    if [[ $code -eq 3 && $(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T) == RUNNING ]]; then
        echo "saved: back into the queue"
        scontrol requeue "$SLURM_JOB_ID"
    fi
    exit "$code"
}

if [[ ${SLURM_ARRAY_TASK_ID:-} ]]; then
    activate
    run_task "$@"
fi

dry="" at_once="" options=()
while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
        --dry-run) dry=yes ;;
        --at-once=*) at_once="%${1#*=}" ;;
        --activate=* | --data=* | --raw=*) set_environment "$1" ;;
        --help | -h) sed -n '2,/^#SBATCH/p' "$0" | grep -v SBATCH; exit 0 ;;
        *) options+=("$1") ;;
    esac
    shift
done
if [[ $# -lt 2 ]]; then
    echo "slurm_array.sh: nothing to sweep: write the flags of cgjax.sweep behind --" >&2
    exit 2
fi
shift
activate
count=$("$PYTHON" -m cgjax.sweep "$@" --count)
submit=(sbatch --export=ALL "--array=0-$((count - 1))$at_once" "${options[@]}" "$0" "$@")
if [[ $dry ]]; then
    printf '%q ' "${submit[@]}"
    echo
else
    "${submit[@]}"
fi
