"""Everything that touches MPI. No other package of fedmpi imports mpi4py.

world         who is there, how to wait, how to fail
orders        what the server tells a worker
placement     which rank is home to which client
server_link   the server's end of a round; worker_link: a worker's
per_client    one exchange that brings updates back; reduced: the other
round         what is known of a round's communication
phases        a round's wall time, divided
"""

from fedmpi.comm.orders import Kind
from fedmpi.comm.phases import PHASES, divide
from fedmpi.comm.placement import static_placement
from fedmpi.comm.round import Round
from fedmpi.comm.server_link import ServerLink
from fedmpi.comm.worker_link import WorkerLink
from fedmpi.comm.world import SERVER, Elsewhere, World, connect, library_version

__all__ = [
    "PHASES",
    "SERVER",
    "Elsewhere",
    "Kind",
    "Round",
    "ServerLink",
    "WorkerLink",
    "World",
    "connect",
    "divide",
    "library_version",
    "static_placement",
]
