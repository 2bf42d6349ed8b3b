"""Everything that touches MPI: no other room imports mpi4py. For the algorithm itself, this room need not be opened.

`world.connect` is the entry point; `server_link` and `worker_link` are the two ends of a round.

    messages      what travels, one dtype each; tags: the kinds of messages
    exchanges/    how updates travel back
    placement     each client's home rank; dispatch: which rank trains a drawn client
    traffic       a round's bytes and times; timeline: its phases; clocks: clocks of other hosts
    failure_detector, signals, launcher    what can go wrong
    hardware      what each rank has; bandwidth, bench: what the network can do
"""
