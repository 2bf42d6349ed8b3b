"""What an update becomes before it is added: itself, or what its compression leaves of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedmpi.compression import Compressor, make_codec
from fedmpi.config import Comm


class Packing:
    """The clients' end of `comm.compression` on one rank, for all runs of a job. `size`: bytes of an update."""

    def __init__(self, settings: Comm, d: int) -> None:
        self.codec = make_codec(settings, d)
        self.size = self.codec.size if self.codec else 4 * d
        # Whether something of an update is left for the client's next one: state that a checkpoint must keep.
        self.feedback = bool(self.codec and self.codec.feedback)
        self.compressors: dict[int, Compressor] = {}
        self.scratch = self.new_payload()

    def new_payload(self) -> NDArray[np.uint8]:
        """Room for one compressed update; none is needed where updates travel as they are."""
        return np.empty(self.size if self.codec else 0, np.uint8)

    def pack(
        self,
        delta: NDArray[np.float32],
        norm: float,
        key: tuple[int, int, int, int],
        payload: NDArray[np.uint8] | None = None,
    ) -> float:
        """The norm of the update as it will be added; compressed into `payload` and, decoded again, into `delta`.

        key: (run, seed, t, client). Without compression nothing happens and the norm is the given one.
        """
        if self.codec is None:
            return norm
        run, seed, t, client = key
        return self._compressor(run).compress(delta, self.scratch if payload is None else payload, seed, t, client)

    def left(self, run: int) -> dict[int, NDArray[np.float32]]:
        """What has been left out of each client's updates so far, to be read or replaced."""
        return self._compressor(run).left

    def _compressor(self, run: int) -> Compressor:
        assert self.codec is not None
        return self.compressors.setdefault(run, Compressor(self.codec))
