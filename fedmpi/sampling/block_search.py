"""Binary search in large tables with few cache misses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedmpi.sampling.law import Ints

BLOCK = 256
SMALL = 1 << 16
"""A table of at most this many entries fits in the cache, and numpy's own search is as fast."""


class BlockSearch:
    """np.searchsorted(table, keys, side="right") in two steps: first the block, then the place within it.

    The short list of the blocks' last entries stays in the cache. Within the blocks all keys are searched at once, so
    that their memory loads overlap: two to four times as fast as searchsorted at n = 10⁷. table: (n,) ascending,
    int64, float64 or Python ints, with every key below its last entry.
    """

    def __init__(self, table: NDArray[Any]) -> None:
        self._table = table
        self._block_ends = table[BLOCK - 1 :: BLOCK].copy()

    def first_above(self, keys: NDArray[Any]) -> Ints:
        """The first index i with keys < table[i], for each key; int64, the shape of keys."""
        if self._table.size <= SMALL:
            return np.searchsorted(self._table, keys, side="right")
        found: Ints = np.searchsorted(self._block_ends, keys, side="right") * BLOCK
        half = BLOCK // 2
        while half:
            # Indices past the end are clipped to the last entry, which is above every key: the search stays left of it.
            found += half * (self._table.take(found + (half - 1), mode="clip") <= keys)
            half //= 2
        return found
