#!/usr/bin/env bash
# A Slurm of one node on this machine, to try slurm_array.sh without a cluster. Everything it writes
# is in FOLDER; nothing of the system is changed. Needs the programs of Slurm, on Debian:
#   apt-get install --no-install-recommends slurmctld slurmd slurm-client
#
#   launch/slurm_one_node.sh [--dry-run] [--cpus=N] start FOLDER
#   export SLURM_CONF=FOLDER/slurm.conf       # then sbatch, squeue and scontrol speak to it
#   launch/slurm_one_node.sh stop FOLDER
#
# Two partitions: jobs in `high` pre-empt those in `low` (the default), which have 60 seconds to save
# and are queued again. Who may submit is not checked (auth/none): not for a machine that others use.
set -euo pipefail

dry="" cpus=$(nproc)
while [[ $# -gt 0 && $1 == -* ]]; do
    case $1 in
        --dry-run) dry=yes ;;
        --cpus=*) cpus=${1#*=} ;;
        --help | -h) sed -n '2,/^set/p' "$0" | grep '^#'; exit 0 ;;
        *) echo "slurm_one_node.sh: unknown option $1: --help names those there are" >&2; exit 2 ;;
    esac
    shift
done
if [[ $# -ne 2 || ! $1 =~ ^(start|stop)$ || ! $cpus =~ ^[0-9]+$ ]]; then
    echo "slurm_one_node.sh: write start FOLDER or stop FOLDER; --help says more" >&2
    exit 2
fi
action=$1 folder=$(realpath -m "$2")

config() {
    local host user
    host=$(hostname -s) user=$(id -un)
    cat <<END
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
SlurmctldPort=26817
SlurmdPort=26818
AuthType=auth/none
AuthInfo=cred_expire=5
CredType=cred/none
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=5,sched_interval=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
KillWait=30
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus State=UNKNOWN
PartitionName=low Nodes=$host Default=YES PriorityTier=1 GraceTime=60 State=UP
PartitionName=high Nodes=$host PriorityTier=10 PreemptMode=OFF State=UP
END
}

start() {
    for program in slurmctld slurmd sbatch; do
        if ! command -v "$program" >/dev/null; then
            echo "slurm_one_node.sh: there is no $program: --help says what to install" >&2
            exit 2
        fi
    done
    mkdir -p "$folder/state" "$folder/spool"
    config >"$folder/slurm.conf"
    export SLURM_CONF=$folder/slurm.conf
    slurmctld -f "$SLURM_CONF"
    slurmd -f "$SLURM_CONF"
    for _ in {1..60}; do
        if [[ $(sinfo --noheader --format=%t 2>/dev/null | sort -u) =~ ^(idle|mix)$ ]]; then
            echo "ready: export SLURM_CONF=$SLURM_CONF"
            return
        fi
        sleep 0.5
    done
    echo "slurm_one_node.sh: the node is not idle after 30 s: see $folder/*.log" >&2
    exit 1
}

stop() {
    for name in slurmd slurmctld; do
        if [[ -f $folder/$name.pid ]]; then
            kill "$(<"$folder/$name.pid")" 2>/dev/null || true
        fi
    done
}

if [[ $dry ]]; then
    echo "would $action in $folder, with slurm.conf:"
    config
else
    "$action"
fi
