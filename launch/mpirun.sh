#!/usr/bin/env bash
# Run fedmpi on the hosts of a hostfile, with Open MPI or MPICH.
#
#   launch/mpirun.sh HOSTFILE RANKS fedmpi-arguments…
#   launch/mpirun.sh hostfiles/localhost 3 run demo -o demo.h5
#
# One rank is the server, the others train clients: RANKS = workers + 1.
set -euo pipefail

# Site-specific: where fedmpi and mpirun are (on every host at the same path), and threads per rank.
PREFIX=${FEDMPI_PREFIX:-$(cd "$(dirname "$0")/.." && pwd)/.venv}
THREADS=${FEDMPI_THREADS:-1}

if [ $# -lt 3 ]; then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
hostfile=$1 ranks=$2
shift 2

export OMP_NUM_THREADS=$THREADS
mpirun=$PREFIX/bin/mpirun
if "$mpirun" --version | grep -qi 'open mpi'; then
    # A rank that waits inside MPI gives its core to one that trains.
    export OMPI_MCA_mpi_yield_when_idle=1
    # By slot: the hostfile's counts are filled host by host, and only ranks beyond them share slots.
    exec "$mpirun" -n "$ranks" --hostfile "$hostfile" --prefix "$PREFIX" --map-by slot:OVERSUBSCRIBE \
        -x OMP_NUM_THREADS -x OMPI_MCA_mpi_yield_when_idle "$PREFIX/bin/fedmpi" "$@"
fi
exec "$mpirun" -n "$ranks" -f "$hostfile" "$PREFIX/bin/fedmpi" "$@"
