"""A client's upload: its update encoded, and what the encoding left out kept for the next one."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedmpi.compression.codecs import Codec, Payload, Vector, largest, make_codec
from fedmpi.config import CommSettings
from fedmpi.rng import stream


class Compressor:
    """The clients' end of one run, on the rank that is their home: encodes updates and keeps what was left out.

    With feedback, v = Δ_i + e_i is encoded in place of Δ_i, and e_i ← v − decoded is kept for the client's next
    upload: over the rounds, Σ decoded = Σ Δ_i − e_i. A client has an e_i, (d,) float32, once it has uploaded.
    """

    def __init__(self, codec: Codec) -> None:
        self.codec = codec
        self.left: dict[int, Vector] = {}

    def compress(self, delta: Vector, payload: Payload, seed: int, t: int, i: int) -> float:
        """The norm of what the server will decode, which decides whether that can be added.

        Client i's upload of round t is written into payload, and what the server will decode into `delta`. seed is
        run.seed. An update that is not finite leaves e_i as it was.
        """
        left = self.left.get(i)
        if left is not None:
            delta += left
        self.codec.encode(delta, payload, stream(seed, "rounding", t, i))
        if self.codec.feedback and math.isfinite(largest(delta)):
            if left is None:
                left = self.left[i] = np.empty_like(delta)
            left[:] = delta
            self.codec.decode(payload, delta)
            left -= delta
        else:
            self.codec.decode(payload, delta)
        return math.sqrt(np.square(delta, dtype=np.float64).sum())


class Packing:
    """The clients' end of `comm.compression` on one rank, for all runs of a job. `size`: bytes of an update."""

    def __init__(self, settings: CommSettings, d: int) -> None:
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
