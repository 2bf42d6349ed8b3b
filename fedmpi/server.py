"""The server's arithmetic: θᵗ⁺¹ = θᵗ + η_g Σ ω_i Δ_i, the same bits in whatever order the updates come."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedmpi.errors import Diverged
from fedmpi.native import library
from fedmpi.sampling import Cohort

# An update is added as whole multiples of a quantum 2⁻³⁶ times the magnitude of θ, in int64, where sums are exactly
# associative. That is 2¹² times finer than float32 resolves at that magnitude, and leaves room for a round
# that moves θ by 2²⁶ times its size; one update may bring 2²⁰ of that. Anything larger has diverged.
FRACTION_BITS = 36
UPDATE_BITS = 20
TOTAL_BITS = 26
# Added to a float64 below 2⁵¹ in size, 1.5·2⁵² leaves no room for a fraction: the sum is rounded to a whole number,
# which then stands in its last bits.
ROUNDER = np.float64(1.5 * 2**52)
ROUNDER_BITS = ROUNDER.view(np.int64)
ROUNDER_RANGE = 2.0**50  # half of it: a norm is itself a rounded number
# Elements handled at once: the scratch arrays stay in a core's cache and their size does not depend on |θ|.
CHUNK = 16384


def magnitude(theta: NDArray[np.float32]) -> int:
    """The smallest e ≥ 0 with |θ_j| ≤ 2^e for all j: what a round's quantum is measured against."""
    largest = float(np.abs(theta).max(initial=0.0))
    return max(0, math.frexp(largest)[1]) if math.isfinite(largest) else 0


class ExactSum:
    """Σ ω_i Δ_i in fixed point: `total` is (d,) int64 in units of the round's quantum."""

    def __init__(self, d: int) -> None:
        self.total = np.zeros(d, np.int64)
        self.exponent = 0
        self._real = np.empty(CHUNK, np.float64)
        self._loops = library()

    def reset(self, exponent: int) -> None:
        """Start a round's sum at zero, in quanta of 2^(exponent − 36)."""
        self.exponent = exponent
        self.total.fill(0)

    def admits(self, omega: float, norm: float) -> bool:
        """Whether an update of that weight and norm ‖Δ_i‖ is finite and within range."""
        return math.isfinite(norm) and omega * norm <= math.ldexp(1.0, self.exponent + UPDATE_BITS)

    def holds(self, total_norm: float) -> bool:
        """Whether a round with Σ ω_i ‖Δ_i‖ = total_norm cannot have overflowed."""
        return total_norm <= math.ldexp(1.0, self.exponent + TOTAL_BITS)

    def add(self, omega: float, delta: NDArray[np.float32], norm: float) -> None:
        """total += ω_i Δ_i, rounded to whole quanta; delta: (d,) float32, norm: ‖Δ_i‖."""
        quanta = np.float64(math.ldexp(omega, FRACTION_BITS - self.exponent))
        small = quanta * norm < ROUNDER_RANGE
        if self._loops and small and delta.flags.c_contiguous:
            self._loops.fedmpi_fixed_add(len(delta), delta.ctypes.data, quanta, self.total.ctypes.data)
            return
        to_whole = round_small if small else round_any
        for start in range(0, len(delta), CHUNK):
            piece, total = delta[start : start + CHUNK], self.total[start : start + CHUNK]
            real = self._real[: len(piece)]
            np.copyto(real, piece)
            np.multiply(real, quanta, out=real)
            np.add(total, to_whole(real), out=total)

    def apply(self, theta: NDArray[np.float32], eta_g: float, out: NDArray[np.float32]) -> float:
        """‖θᵗ⁺¹ − θᵗ‖, with θᵗ⁺¹ = θᵗ + η_g Σ ω_i Δ_i   [FVKL, eq. (3)] written into `out`, which may be θ itself."""
        step = np.float64(math.ldexp(eta_g, self.exponent - FRACTION_BITS))
        if self._loops:
            found = np.empty(1)
            vectors = self.total.ctypes.data, step, theta.ctypes.data, out.ctypes.data
            self._loops.fedmpi_fixed_apply(len(theta), *vectors, found.ctypes.data)
            return math.sqrt(found[0])
        squares = 0.0
        for start in range(0, len(theta), CHUNK):
            piece, total = theta[start : start + CHUNK], self.total[start : start + CHUNK]
            real = self._real[: len(piece)]
            np.multiply(total, step, out=real)
            squares += float(real @ real)
            np.add(real, piece, out=real)
            out[start : start + CHUNK] = real
        return math.sqrt(squares)


def count_rejected(total: ExactSum, cohort: Cohort, arrivals: NDArray[np.void], t: int, on_nonfinite: str) -> int:
    """How many of round t's updates were left out of the sum, because they are not finite or far out of range.

    arrivals: `client`, `delta_norm` and `sent_norm` of every update, sorted by client as the cohort is. With
    on_nonfinite = "stop" such an update raises `Diverged`, and so do updates that together may have overflowed the sum.
    """
    updates = list(zip(cohort.omega.tolist(), arrivals["sent_norm"].tolist(), strict=True))
    admitted = [total.admits(omega, norm) for omega, norm in updates]
    if not all(admitted) and on_nonfinite == "stop":
        first = arrivals[admitted.index(False)]
        raise Diverged(
            f"round {t}: the update of client {first['client']} has norm {first['delta_norm']:g}; lower client.eta_l, "
            'or set server.on_nonfinite = "skip" to leave such updates out'
        )
    if not total.holds(sum(omega * norm for (omega, norm), fits in zip(updates, admitted, strict=True) if fits)):
        raise Diverged(f"round {t}: the updates together are out of range; lower client.eta_l")
    return admitted.count(False)


def round_small(real: NDArray[np.float64]) -> NDArray[np.int64]:
    """The whole numbers nearest to numbers below 2⁵¹ in size, half to even, in the memory of `real`: three times as
    fast as `round_any`."""
    np.add(real, ROUNDER, out=real)
    whole = real.view(np.int64)
    return np.subtract(whole, ROUNDER_BITS, out=whole)


def round_any(real: NDArray[np.float64]) -> NDArray[np.int64]:
    """The whole numbers nearest to numbers below 2⁶³ in size, half to even."""
    return np.rint(real, out=real).astype(np.int64)
