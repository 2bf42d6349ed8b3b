"""A client's upload: its update encoded, and what the encoding left out kept for the next one."""

from __future__ import annotations

import math

import numpy as np

from fedmpi.compression.codecs import Codec, Payload, Vector, largest
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
