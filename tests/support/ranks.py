"""Assertions in tests that run on several MPI ranks at once."""

from __future__ import annotations

import traceback
from types import TracebackType

from mpi4py import MPI

COMM = MPI.COMM_WORLD


class FailedOnRanks(AssertionError):
    """Raised on every rank when a block failed on at least one; the message has the traceback of each."""


class fail_together:  # noqa: N801 -- used as a statement: `with fail_together(COMM):`
    """Collective. Run a block on every rank; if it raises on any rank, raise FailedOnRanks on all of them.

    All ranks then fail the same test, and the one that prints (rank 0) shows what each of them raised. Plain `assert`
    and `pytest.raises` work in the block, with pytest's explanations.

    The block itself must not communicate: a rank that fails before a collective call leaves the others waiting in it.
    So call what is collective first, keep its results, and check these in the block. For the same reason neither
    `pytest.skip` nor `return` may end the test on some ranks only.
    """

    def __init__(self, comm: MPI.Comm = COMM) -> None:
        self.comm = comm

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        __tracebackhide__ = True  # pytest shows the line of the test, not this one
        if isinstance(error, KeyboardInterrupt):
            return
        text = "" if error is None else "".join(traceback.format_exception(kind, error, where)).rstrip()
        texts = self.comm.allgather(text)
        failed = {rank: each for rank, each in enumerate(texts) if each}
        if failed:
            each = (f"---- rank {rank} ----\n{failed[rank]}" for rank in failed)
            ranks = ", ".join(map(str, failed))
            raise FailedOnRanks("\n".join([f"failed on rank {ranks} of {len(texts)} ranks", *each])) from None
