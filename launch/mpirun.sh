#!/usr/bin/env bash
# Run fedmpi over ssh, with Open MPI or MPICH:
#
#   launch/mpirun.sh HOSTS RANKS fedmpi-arguments…
#   launch/mpirun.sh hostfiles/localhost 3 run demo -o demo.h5
#   launch/mpirun.sh node1:2,node2:2 4 run demo -o demo.h5
#
# HOSTS is a hostfile (see hostfiles/README.md) or host:ranks,host:ranks. The hosts are filled in that order; the first
# rank is the server, the others train clients: RANKS = workers + 1.
set -euo pipefail

# Site-specific: the virtual environment of fedmpi, and its mpirun or your site's; at the same path on every host.
PREFIX=${FEDMPI_PREFIX:-$(cd "$(dirname "$0")/.." && pwd)/.venv}
MPIRUN=${FEDMPI_MPIRUN:-$PREFIX/bin/mpirun}
# Threads per rank, and BIND: none (a rank may use any core of its host) or core (each rank gets THREADS cores).
THREADS=${FEDMPI_THREADS:-1}
BIND=${FEDMPI_BIND:-none}
# Ranks per host, instead of the numbers in HOSTS.
PER_HOST=${FEDMPI_PER_HOST:-}
# Not empty: survive lost workers (Open MPI only; needs run.on_rank_failure = "continue").
ULFM=${FEDMPI_ULFM:-}
# How to reach a host, if not by plain ssh: a program that takes ssh's arguments.
SSH=${FEDMPI_SSH:-}
# HOSTS, RANKS and fedmpi's arguments, if the script is called without arguments.
DEFAULT=()

[ $# -gt 0 ] || set -- ${DEFAULT[@]+"${DEFAULT[@]}"}
if [ $# -lt 3 ]; then
    sed -n 's/^#   /usage: /p' "$0" >&2
    exit 2
fi
hosts=$1 ranks=$2
shift 2
mpirun=("$MPIRUN" -n "$ranks")
export OMP_NUM_THREADS=$THREADS
# Rank 0 writes its exit code to this file, because mpirun's own can be wrong.
FEDMPI_EXIT_FILE=$(mktemp)
export FEDMPI_EXIT_FILE
trap 'rm -f "$FEDMPI_EXIT_FILE"' EXIT

if [[ $("$MPIRUN" --version) == *"Open MPI"* ]]; then
    if [ -f "$hosts" ]; then mpirun+=(--hostfile "$hosts"); else mpirun+=(--host "$hosts"); fi
    # By slot: hosts are filled in order, up to their counts in HOSTS; only ranks beyond these share slots.
    if [ -n "$PER_HOST" ]; then map=ppr:$PER_HOST:node; else map=slot; fi
    if [ "$BIND" = core ]; then map+=:PE=$THREADS; fi
    # A rank that waits inside MPI yields its core to one that trains.
    export OMPI_MCA_mpi_yield_when_idle=1
    mpirun+=(--map-by "$map:OVERSUBSCRIBE" --bind-to "$BIND")
    mpirun+=(-x OMP_NUM_THREADS -x OMPI_MCA_mpi_yield_when_idle -x FEDMPI_EXIT_FILE)
    # With these, the daemons on both sides of a broken link notice it within half a minute and end the job.
    export PRTE_MCA_oob_tcp_keepalive_time=10 PRTE_MCA_oob_tcp_keepalive_intvl=5 PRTE_MCA_oob_tcp_keepalive_probes=4
    if [ -n "$SSH" ]; then export PRTE_MCA_plm_ssh_agent=$SSH; fi
    if [ -n "$ULFM" ]; then mpirun+=(--with-ft ulfm); fi
else
    if [ -f "$hosts" ]; then mpirun+=(-f "$hosts"); else mpirun+=(-hosts "$hosts"); fi
    if [ -n "$PER_HOST" ]; then mpirun+=(-ppn "$PER_HOST"); fi
    if [ "$BIND" = core ]; then mpirun+=(-bind-to "core:$THREADS"); fi
    if [ -n "$SSH" ]; then mpirun+=(-launcher ssh -launcher-exec "$SSH"); fi
fi

# Open MPI's mpirun kills its ranks half a second after SIGTERM or Ctrl-C, but forwards USR1, on which fedmpi writes a
# checkpoint and exits with 3. MPICH's mpirun then kills ranks that exit a moment later than others, and exits with 9.
"${mpirun[@]}" "$PREFIX/bin/fedmpi" "$@" &
job=$! stopped=
trap 'stopped=yes; kill -USR1 "$job"' TERM INT
# mpirun may wait forever for a host that it cannot reach. It gets 30 s after rank 0 has written its exit code.
{
    until grep -q '[0-9]' "$FEDMPI_EXIT_FILE"; do sleep 1 &>/dev/null; done
    sleep 30 &>/dev/null
    echo "fedmpi: killing mpirun, which waits for a host that does not answer" >&2
    # Its children too: the ssh to that host would keep the output open.
    read -ra ssh <"/proc/$job/task/$job/children" || true
    kill -KILL "$job" ${ssh[@]+"${ssh[@]}"}
} &
watch=$!
disown "$watch"
while :; do
    wait "$job" && code=0 || code=$?
    kill -0 "$job" 2>/dev/null || break
done
kill "$watch" 2>/dev/null || true
written=$(cat "$FEDMPI_EXIT_FILE")
# Open MPI's mpirun exits with 0 when it has lost a host. The file then still says "running", if rank 0 is on this host.
if [ "$code" = 0 ] && [ "$written" = running ]; then
    echo "fedmpi: mpirun ended the job before rank 0 was done; resume it with the same command and --resume" >&2
    code=1
fi
if [ "$code" = 137 ] && [[ $written == [0-9]* ]]; then code=$written; fi
if [ "$code" = 9 ] && [ -n "$stopped" ]; then code=3; fi
exit "$code"
