"""The compiled loops called with numpy arrays of exact size, over many shapes: `python -m tests.support.loops LIBRARY`.

Prints a hash of everything that each kernel computes. It imports neither torch nor what imports it, so that it can run
under a sanitizer.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import sys

import numpy as np

from fedmpi.native import FUNCTIONS, KERNELS

HIDDEN = (1, 2, 3, 4, 5, 7, 11, 12, 13, 16, 17, 31, 33, 100, 257)
# (V, E, L, B, T) beside each of them.
SHAPES = ((2, 1, 1, 1, 1), (1, 3, 2, 2, 2), (5, 8, 3, 15, 1), (11, 2, 1, 16, 3), (100, 8, 2, 33, 2), (7, 4, 2, 65, 2))
LENGTHS = (0, 1, 7, 15, 16, 17, 1000)


def open_library(path: str) -> ctypes.CDLL:
    loops = ctypes.CDLL(path)
    for name, (arguments, result) in FUNCTIONS.items():
        getattr(loops, name).argtypes, getattr(loops, name).restype = arguments, result
    return loops


def parameters(V: int, E: int, H: int, L: int) -> int:
    return V * E + sum(4 * H * ((E if layer == 0 else H) + H + 2) for layer in range(L)) + V * H + V


def lstm(loops: ctypes.CDLL, V: int, E: int, H: int, L: int, B: int, T: int) -> list[np.ndarray]:
    """Loss and gradient, then loss and correct predictions of an evaluation."""
    rng = np.random.default_rng([V, E, H, L, B, T])
    theta = rng.normal(0, 1 / H**0.5, parameters(V, E, H, L)).astype(np.float32)
    x, y = rng.integers(V, size=(B, T)), rng.integers(V, size=B)
    sizes, grad, found = np.array([V, E, H, L, B, T]), np.empty_like(theta), np.empty(3)
    at = [array.ctypes.data for array in (sizes, theta, x, y)]
    memory = np.empty(loops.fedmpi_lstm_memory(sizes.ctypes.data, 1), np.float32)
    assert loops.fedmpi_lstm_gradient(*at, grad.ctypes.data, memory.ctypes.data, found.ctypes.data) == 0
    memory = np.empty(loops.fedmpi_lstm_memory(sizes.ctypes.data, 0), np.float32)
    correct = found.ctypes.data + 16
    assert loops.fedmpi_lstm_evaluate(*at, memory.ctypes.data, found.ctypes.data + 8, correct) == 0
    return [grad, found]


def vectors(loops: ctypes.CDLL, d: int) -> list[np.ndarray]:
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(2, d)).astype(np.float32)
    total, theta, found = np.zeros(d, np.int64), rng.normal(size=d).astype(np.float32), np.empty(1)
    loops.fedmpi_axpy(d, -0.3, x.ctypes.data, y.ctypes.data)
    loops.fedmpi_fixed_add(d, x.ctypes.data, 2.0**36 / 3, total.ctypes.data)
    sums = total.ctypes.data, 2.0**-36, theta.ctypes.data
    loops.fedmpi_fixed_apply(d, *sums, theta.ctypes.data, found.ctypes.data)
    return [y, total, theta, found, np.array([loops.fedmpi_squares(d, x.ctypes.data)])]


def hash_of(loops: ctypes.CDLL, kernel: int) -> str:
    """The hash of all results of one kernel, or of the best one below it that this CPU has."""
    loops.fedmpi_use_kernel(kernel)
    found = hashlib.sha256()
    for H, (V, E, L, B, T) in itertools.product(HIDDEN, SHAPES):
        if H * V > 1000:  # long without vectors, and nothing new
            continue
        for array in lstm(loops, V, E, H, L, B, T):
            found.update(array.tobytes())
    for d in LENGTHS:
        for array in vectors(loops, d):
            found.update(array.tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    library = open_library(sys.argv[1])
    for number in range(len(KERNELS)):
        print(hash_of(library, number))
