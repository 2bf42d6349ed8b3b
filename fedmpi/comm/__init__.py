"""Everything that touches MPI. No other package of fedmpi imports mpi4py.

world         who is there, how to wait, how to fail
launcher      whether MPI knows of all the processes that were started together
orders        what the server tells a worker
placement     which rank is home to which client; dispatch: who trains one that is drawn
server_link   the server's end of a round; worker_link: a worker's
per_client    one exchange that brings updates back; reduced: the other
round         what is known of a round's communication
phases        a round's wall time, divided
packing       what compression makes of an update
spans         what a worker does when, for a profile
clocks        how the ranks' clocks are compared; clock_map: the arithmetic of it
probes        raw latency and bandwidth; seats: nodes, cores, devices; bench: fedmpi's path against raw buffers
"""
