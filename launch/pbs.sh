#!/usr/bin/env bash
# One run on a PBS cluster, with Open MPI or MPICH. qsub passes no arguments on: say what to run in DEFAULT below, or
#
#   qsub -v FEDMPI_RUN="run synthetic-text -o text.h5" launch/pbs.sh
#
# Two minutes before its time is up, the run writes a checkpoint; the same command goes on from there.
#
# Site-specific: nodes, then for each of them cores, ranks (the very first is the server) and threads per rank; time.
#PBS -N fedmpi
#PBS -l select=2:ncpus=2:mpiprocs=2:ompthreads=1
#PBS -l walltime=01:00:00
##PBS -q batch
##PBS -A project
#PBS -j oe
#PBS -r y
set -euo pipefail
cd "${PBS_O_WORKDIR:-.}"

# Site-specific: the environment with fedmpi, and its mpirun or your site's; on a file system that all nodes see.
PREFIX=${FEDMPI_PREFIX:-$PWD/.venv}
MPIRUN=${FEDMPI_MPIRUN:-$PREFIX/bin/mpirun}
# When to write the checkpoint and stop, in seconds: two minutes less than walltime.
STOP_AFTER=${FEDMPI_STOP_AFTER:-3480}
# How to start a rank on another node: ssh, or where it exists pbs_tmrsh, which lets PBS account for it and end it.
SSH=${FEDMPI_SSH:-$(command -v pbs_tmrsh || command -v ssh)}
# Not empty: survive dead workers (Open MPI only; with run.on_rank_failure = "continue").
ULFM=${FEDMPI_ULFM:-}
# What to run, if FEDMPI_RUN does not say it.
DEFAULT=(run demo -o demo.h5)

if [ -n "${FEDMPI_RUN:-}" ]; then read -ra words <<<"$FEDMPI_RUN"; else words=("${DEFAULT[@]}"); fi
if [ "${words[0]}" = run ]; then words+=(--resume); fi
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
# PBS lists in this file the node of every rank.
mpirun=("$MPIRUN" -n "$(wc -l <"$PBS_NODEFILE")")
if [[ $("$MPIRUN" --version) == *"Open MPI"* ]]; then
    # A rank may use any core of its node; one that waits gives its core to one that trains.
    mpirun+=(--hostfile "$PBS_NODEFILE" --bind-to none)
    mpirun+=(-x OMP_NUM_THREADS -x OMPI_MCA_mpi_yield_when_idle)
    export OMPI_MCA_mpi_yield_when_idle=1 PRTE_MCA_plm_ssh_agent=$SSH
    if [ -n "$ULFM" ]; then mpirun+=(--with-ft ulfm); fi
else
    mpirun+=(-f "$PBS_NODEFILE" -launcher ssh -launcher-exec "$SSH")
fi

# USR1 makes fedmpi write a checkpoint and leave with code 3. MPICH's mpirun then kills ranks that leave a moment late,
# and says so: 9.
began=$SECONDS code=0
timeout --foreground --preserve-status --signal=USR1 "$STOP_AFTER" "${mpirun[@]}" "$PREFIX/bin/fedmpi" "${words[@]}" ||
    code=$?
if [ "$code" = 9 ] && [ $((SECONDS - began)) -ge "$STOP_AFTER" ]; then code=3; fi
exit "$code"
