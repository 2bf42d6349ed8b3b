#!/usr/bin/env bash
# One run on a PBS cluster, with Open MPI or MPICH. qsub takes no arguments for the script: set DEFAULT below, or use
#
#   qsub -v FEDMPI_RUN="run synthetic-text -o text.h5" launch/pbs.sh
#
# Two minutes before its time limit the run writes a checkpoint; submit the same command again to continue it.
#
# Site-specific: nodes, and for each of them cores, ranks (the very first is the server) and threads per rank; time.
#PBS -N fedmpi
#PBS -l select=2:ncpus=2:mpiprocs=2:ompthreads=1
#PBS -l walltime=01:00:00
##PBS -q batch
##PBS -A project
#PBS -j oe
#PBS -r y
set -euo pipefail
cd "${PBS_O_WORKDIR:-.}"

# Site-specific: the virtual environment of fedmpi, and its mpirun or your site's; on a file system of all nodes.
PREFIX=${FEDMPI_PREFIX:-$PWD/.venv}
MPIRUN=${FEDMPI_MPIRUN:-$PREFIX/bin/mpirun}
# Seconds after which the run writes a checkpoint and stops: two minutes less than walltime.
STOP_AFTER=${FEDMPI_STOP_AFTER:-3480}
# How to start a rank on another node: ssh, or pbs_tmrsh if it exists, with which PBS accounts for the rank and ends it.
SSH=${FEDMPI_SSH:-$(command -v pbs_tmrsh || command -v ssh)}
# Not empty: survive lost workers (Open MPI only; needs run.on_rank_failure = "continue").
ULFM=${FEDMPI_ULFM:-}
# fedmpi's arguments, if FEDMPI_RUN is not set.
DEFAULT=(run demo -o demo.h5)

if [ -n "${FEDMPI_RUN:-}" ]; then read -ra words <<<"$FEDMPI_RUN"; else words=("${DEFAULT[@]}"); fi
if [ "${words[0]}" = run ]; then words+=(--resume); fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# In this file PBS lists the node of every rank.
mpirun=("$MPIRUN" -n "$(wc -l <"$PBS_NODEFILE")")
if [[ $("$MPIRUN" --version) == *"Open MPI"* ]]; then
    # A rank may use any core of its node; a rank that waits yields its core to one that trains.
    mpirun+=(--hostfile "$PBS_NODEFILE" --bind-to none)
    mpirun+=(-x OMP_NUM_THREADS -x OMPI_MCA_mpi_yield_when_idle)
    export OMPI_MCA_mpi_yield_when_idle=1 PRTE_MCA_plm_ssh_agent=$SSH
    if [ -n "$ULFM" ]; then mpirun+=(--with-ft ulfm); fi
else
    mpirun+=(-f "$PBS_NODEFILE" -launcher ssh -launcher-exec "$SSH")
fi

# On USR1 fedmpi writes a checkpoint and exits with 3. MPICH's mpirun then kills ranks that exit a moment later than
# others, and exits with 9.
began=$SECONDS code=0
timeout --foreground --preserve-status --signal=USR1 "$STOP_AFTER" "${mpirun[@]}" "$PREFIX/bin/fedmpi" "${words[@]}" ||
    code=$?
if [ "$code" = 9 ] && [ $((SECONDS - began)) -ge "$STOP_AFTER" ]; then code=3; fi
exit "$code"
