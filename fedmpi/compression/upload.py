"""A client's upload: its update, encoded by the codec of `comm.compression`."""

from __future__ import annotations

import math

import numpy as np

from fedmpi.compression.codecs import Payload, Vector, largest
from fedmpi.compression.registry import make_codec
from fedmpi.config import CommSettings
from fedmpi.rng import stream


class UploadEncoder:
    """Encodes the updates of one rank's clients, for all runs of a job, and keeps each client's residual.

    With error feedback, v = Δ_i + e_i is encoded in place of Δ_i, and the residual e_i ← v − decoded is kept for the
    client's next upload, so that over the rounds Σ decoded = Σ Δ_i − e_i. A client has an e_i, (d,) float32, from its
    first upload on.

    codec: None where updates are sent as they are.
    nbytes: the bytes of one upload.
    keeps_residuals: whether the codec needs error feedback. If so, a checkpoint must hold the residuals.
    """

    def __init__(self, settings: CommSettings, d: int) -> None:
        self.codec = make_codec(settings, d)
        self.nbytes = self.codec.nbytes if self.codec else 4 * d
        self.keeps_residuals = bool(self.codec and self.codec.feedback)
        self._residuals: dict[int, dict[int, Vector]] = {}
        self._scratch: Payload = np.empty(self.nbytes if self.codec else 0, np.uint8)

    def residuals(self, run: int) -> dict[int, Vector]:
        """The residual e_i of each client i of a run that has one; the caller may read and replace them."""
        return self._residuals.setdefault(run, {})

    def encode(
        self, delta: Vector, norm: float, key: tuple[int, int, int, int], payload: Payload | None = None
    ) -> float:
        """Return the norm of what the server will decode, by which both sides decide whether to add it.

        Writes the encoded update into `payload`, (nbytes,) uint8, and what the server will decode into `delta`.
        Without a codec both stay as they are, and the norm is the given one.

        key: (run, run.seed, t, client). An update that is not finite leaves the client's residual as it was.
        """
        if self.codec is None:
            return norm
        payload = self._scratch if payload is None else payload
        run, seed, t, client = key
        residuals = self.residuals(run)
        residual = residuals.get(client)
        if residual is not None:
            delta += residual
        self.codec.encode(delta, payload, stream(seed, "rounding", t, client))
        if self.keeps_residuals and math.isfinite(largest(delta)):
            if residual is None:
                residual = residuals[client] = np.empty_like(delta)
            residual[:] = delta
            self.codec.decode(payload, delta)
            residual -= delta
        else:
            self.codec.decode(payload, delta)
        return math.sqrt(np.square(delta, dtype=np.float64).sum())
