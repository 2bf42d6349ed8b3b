"""A job on all ranks, from its preparation to its last record. The algorithm is in `federation`, `client` and `server`.

`start.run` is the entry point. It prepares the job (`prepare`, `devices`); then rank 0 runs `server_loop` and the other
ranks run `worker_loop`. `sweep`, `replay` and `noop_rounds` start jobs of other kinds.
"""
