"""The codecs: each encodes an update of d entries in a fixed number of bytes and decodes it again."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedmpi.config import CommSettings

Vector = NDArray[np.float32]
Payload = NDArray[np.uint8]

# Entries handled at once: the scratch arrays stay in a core's cache and their size does not depend on d.
BLOCK = 16384
# Entries that share a unit in `int8`; divides BLOCK.
CHUNK = 1024


class Codec(Protocol):
    """Encodes updates of d entries, each in `nbytes` bytes. Made from (d, settings of [comm]).

    feedback: whether to add what one upload left out to the client's next one (error feedback). A biased codec needs
    it to converge.
    """

    nbytes: int
    feedback: bool

    def encode(self, delta: Vector, payload: Payload, rng: Generator) -> None:
        """Encode delta, (d,) float32, into payload, (nbytes,) uint8; rng rounds at random where the codec does."""

    def decode(self, payload: Payload, out: Vector) -> None:
        """Decode payload into out, (d,) float32."""


def largest(delta: Vector) -> float:
    """max |Δ_j|; NaN or ∞ if, and only if, an entry is not finite."""
    return float(max(delta.max(), -delta.min()))


class Float16:
    """Half precision: |decoded − Δ_j| ≤ max(2⁻¹¹ |Δ_j|, 2⁻³⁹ max |Δ|).

    The update is divided by a power of two u that brings its largest entry below 2¹⁵. The division is exact, and large
    and small updates stay in the range of float16. Payload: u as float32, then d float16.
    """

    feedback = False

    def __init__(self, d: int, settings: CommSettings) -> None:
        self.nbytes = 2 * d + 4
        self._scaled = np.empty(BLOCK, np.float32)

    def encode(self, delta: Vector, payload: Payload, rng: Generator) -> None:
        unit, halves = payload[:4].view(np.float32), payload[4:].view(np.float16)
        peak = largest(delta)
        if not math.isfinite(peak):
            unit[0] = math.nan
            halves.fill(0)
            return
        # 2¹²⁷ is float32's largest power of two; where it stops the scaling, float16 is finer than float32 anyway.
        shift = min(15 - math.frexp(peak)[1], 127)
        unit[0] = math.ldexp(1.0, -shift)
        factor = np.float32(math.ldexp(1.0, shift))
        for start in range(0, len(delta), BLOCK):
            piece = delta[start : start + BLOCK]
            scaled = np.multiply(piece, factor, out=self._scaled[: len(piece)])
            halves[start : start + BLOCK] = scaled

    def decode(self, payload: Payload, out: Vector) -> None:
        out[:] = payload[4:].view(np.float16)
        out *= payload[:4].view(np.float32)[0]


class BFloat16:
    """The upper half of each float32, to nearest, ties to even: |decoded − Δ_j| ≤ max(2⁻⁸ |Δ_j|, 2⁻¹³⁴)."""

    feedback = False
    NAN = 0x7FC0

    def __init__(self, d: int, settings: CommSettings) -> None:
        self.nbytes = 2 * d
        self._odd = np.empty(BLOCK, np.uint32)

    def encode(self, delta: Vector, payload: Payload, rng: Generator) -> None:
        halves = payload.view(np.uint16)
        if not math.isfinite(largest(delta)):
            halves.fill(self.NAN)
            return
        words = delta.view(np.uint32)
        for start in range(0, len(delta), BLOCK):
            piece = words[start : start + BLOCK]
            # Rounds half to even: adds just under half of the last kept bit, or exactly half where that bit is odd.
            word = np.right_shift(piece, 16, out=self._odd[: len(piece)])
            word &= 1
            word += 0x7FFF
            word += piece
            word >>= 16
            halves[start : start + BLOCK] = word

    def decode(self, payload: Payload, out: Vector) -> None:
        words = out.view(np.uint32)
        words[:] = payload.view(np.uint16)
        words <<= 16


class Int8:
    """Whole multiples q of a unit s, q ∈ [−127, 127], at random between the two neighbours so that E[q s] = Δ_j.

    q = ⌊y⌋ + 1 with probability y − ⌊y⌋, else ⌊y⌋, for y = Δ_j/s. s is the float32 just above max|Δ|/127 over the
    1,024 entries that share it. |decoded − Δ_j| ≤ s, and the mean is Δ_j, both to float32's rounding: 2⁻¹⁶ s.
    Payload: ⌈d/1024⌉ float32 s, then d int8.
    """

    feedback = False

    def __init__(self, d: int, settings: CommSettings) -> None:
        self.chunks = -(-d // CHUNK)
        self.nbytes = d + 4 * self.chunks
        self._y, self._floor, self._random = np.empty((3, BLOCK // CHUNK, CHUNK), np.float32)
        self._q = np.empty((BLOCK // CHUNK, CHUNK), np.int8)

    def encode(self, delta: Vector, payload: Payload, rng: Generator) -> None:
        units, q = payload[: 4 * self.chunks].view(np.float32), payload[4 * self.chunks :].view(np.int8)
        # The q of entries that are not finite do not matter: their unit is NaN.
        with np.errstate(invalid="ignore"):
            for start in range(0, len(delta), BLOCK):
                piece = delta[start : start + BLOCK]
                self._y.ravel()[: len(piece)] = piece
                self._y.ravel()[len(piece) :] = 0.0
                here = units[start // CHUNK : (start + BLOCK) // CHUNK]
                self._round(here, rng)
                q[start : start + BLOCK] = self._q.ravel()[: len(piece)]

    def _round(self, units: Vector, rng: Generator) -> None:
        """Write the block in `_y` as whole numbers into `_q`, and their units into `units`."""
        y, floor, random = self._y, self._floor, self._random
        peak = np.abs(y, out=floor).max(axis=1)
        unit = np.nextafter(peak / np.float32(127), np.float32(np.inf))
        unit[~np.isfinite(peak)] = math.nan
        units[:] = unit[: len(units)]
        np.divide(y, unit[:, None], out=y)
        np.floor(y, out=floor)
        np.subtract(y, floor, out=y)
        rng.random(out=random, dtype=np.float32)
        np.add(floor, random < y, out=floor)
        np.copyto(self._q, floor, casting="unsafe")

    def decode(self, payload: Payload, out: Vector) -> None:
        units, q = payload[: 4 * self.chunks].view(np.float32), payload[4 * self.chunks :].view(np.int8)
        whole = len(out) // CHUNK * CHUNK
        np.multiply(q[:whole].reshape(-1, CHUNK), units[: whole // CHUNK, None], out=out[:whole].reshape(-1, CHUNK))
        if whole < len(out):
            np.multiply(q[whole:], units[-1], out=out[whole:])


class TopK:
    """The k = ⌈comm.topk · d⌉ entries of largest |Δ_j|, unchanged; zero elsewhere. Ties go to the lower index.

    Payload: k uint32 indices, ascending, then k float32 entries.
    """

    feedback = True

    def __init__(self, d: int, settings: CommSettings) -> None:
        # The share in decimals, as it is written: 0.07 of 100 entries are 7, where float arithmetic gives 8.
        self.k = math.ceil(Fraction(str(settings.topk)) * d)
        self.nbytes = 8 * self.k
        self._sizes, self._sorted = np.empty((2, d), np.float32)
        self._kept = np.empty(d, np.bool_)

    def encode(self, delta: Vector, payload: Payload, rng: Generator) -> None:
        indices, entries = payload[: 4 * self.k].view(np.uint32), payload[4 * self.k :].view(np.float32)
        if not math.isfinite(largest(delta)):
            indices[:] = np.arange(self.k)
            entries.fill(math.nan)
            return
        sizes = np.abs(delta, out=self._sizes)
        self._sorted[:] = sizes
        self._sorted.partition(len(delta) - self.k)
        least = self._sorted[len(delta) - self.k]
        # `partition` leaves equal entries in an order that depends on the CPU: take only the k-th size from it.
        kept = np.greater(sizes, least, out=self._kept)
        ties = np.flatnonzero(sizes == least)
        kept[ties[: self.k - int(np.count_nonzero(kept))]] = True
        indices[:] = np.flatnonzero(kept)
        np.take(delta, indices, out=entries)

    def decode(self, payload: Payload, out: Vector) -> None:
        indices, entries = payload[: 4 * self.k].view(np.uint32), payload[4 * self.k :].view(np.float32)
        out.fill(0.0)
        out[indices] = entries
