#!/usr/bin/env bash
# One run on this machine, as several processes: what several hosts would do, or a process for each
# GPU. Says how each process ended. The same command goes on, with any number of processes.
#
#   launch/local.sh [--dry-run] [--processes=N] [--gpus] [--port=P] [--grace=S]
#       [--activate=FILE] [--data=DIR] [--raw=DIR] -- flags of cgjax.main
#
#   launch/local.sh --processes=2 -- --config=vectors:smoke --config.train.seeds=0,1
#
# --processes: 2 by default. --gpus: process i takes GPU i alone. --grace: seconds that the others
# have once a process has failed (120); then they are killed.
# --activate: a file that each process sources first, such as .venv/bin/activate. --data, --raw: the
# folders CGJAX_DATA_DIR and CGJAX_RAW_DIR. PYTHON names another Python than `python`.
# Exit code: 0 all done, 3 stopped and saved, else that of the process that failed first.
set -euo pipefail
PYTHON=${PYTHON:-python}
# shellcheck source=launch/environment.bash
source "${CGJAX_LAUNCH:-$(dirname "$0")}/environment.bash"

dry="" processes=2 gpus="" port=$((20000 + $$ % 10000)) grace=120
while [[ $# -gt 0 && $1 != -- ]]; do
    case $1 in
        --dry-run) dry=yes ;;
        --processes=*) processes=${1#*=} ;;
        --gpus) gpus=yes ;;
        --port=*) port=${1#*=} ;;
        --grace=*) grace=${1#*=} ;;
        --activate=* | --data=* | --raw=*) set_environment "$1" ;;
        --help | -h) sed -n '2,/^set/p' "$0" | grep '^#'; exit 0 ;;
        *) echo "local.sh: unknown option $1: --help names those there are" >&2; exit 2 ;;
    esac
    shift
done
if [[ $# -lt 2 || ! $processes$port$grace =~ ^[0-9]+$ || $processes -lt 1 ]]; then
    echo "local.sh: write the flags of cgjax.main behind --, and numbers for the options" >&2
    exit 2
fi
shift
activate

children=() codes=() failed="" deadline=0
for ((host = 0; host < processes; host++)); do
    command=("$PYTHON" -m cgjax.main "$@"
        "--coordinator=localhost:$port" "--hosts=$processes" "--host=$host")
    [[ $gpus ]] && command=(env "JAX_LOCAL_DEVICE_IDS=$host" "${command[@]}")
    if [[ $dry ]]; then
        printf '%q ' "${command[@]}"
        echo
        continue
    fi
    # A session of its own: a Ctrl-C reaches it once, through us.
    setsid "${command[@]}" &
    children+=("$!") codes+=("")
done
[[ $dry ]] && exit 0

hand_on() {
    for host in "${!children[@]}"; do
        [[ ${codes[$host]} ]] || kill "-$1" "${children[$host]}" 2>/dev/null || true
    done
}
meaning() {
    case $1 in
        2) echo " (bad input)" ;;
        3) echo " (stopped and saved)" ;;
        4) echo " (diverged)" ;;
        5) echo " (another process was lost)" ;;
    esac
    if [[ $1 -gt 128 ]]; then echo " (ended by SIG$(kill -l "$1"))"; fi
}
trap 'hand_on TERM' TERM
trap 'hand_on USR1' USR1
trap 'hand_on INT' INT
trap 'hand_on KILL' EXIT

left=$processes
while [[ $left -gt 0 ]]; do
    sleep 0.2 || true
    for host in "${!children[@]}"; do
        [[ ${codes[$host]} ]] && continue
        kill -0 "${children[$host]}" 2>/dev/null && continue
        code=0
        wait "${children[$host]}" || code=$?
        codes[host]=$code left=$((left - 1))
        echo "process $host of $processes: exit code $code$(meaning "$code")"
        if [[ $code -ne 0 && $code -ne 3 && ! $failed ]]; then
            failed=$code deadline=$((SECONDS + grace))
        fi
    done
    if [[ $failed && $left -gt 0 && $SECONDS -ge $deadline ]]; then
        echo "$left processes still run $grace s after one has failed: killed"
        hand_on KILL
    fi
done
if [[ $failed ]]; then
    if [[ $failed -eq 5 || $failed -gt 128 ]]; then
        echo "what was saved is kept: the same command goes on, with any number of processes"
    fi
    exit "$failed"
fi
for code in "${codes[@]}"; do
    [[ $code -eq 0 ]] || exit "$code"
done
