"""Arithmetic on θ: with the loops in C, the same bits on every CPU; without, torch's, which depend on the CPU."""

from __future__ import annotations

import math

import torch

from fedmpi.models.device import CPU
from fedmpi.native import library


def axpy(a: float, x: torch.Tensor, y: torch.Tensor) -> None:
    """y += a x, each element rounded once; x, y: (d,) float32, contiguous."""
    loops = library()
    if loops is not None and y.device.type == CPU:
        loops.fedmpi_axpy(len(y), a, x.data_ptr(), y.data_ptr())
    else:
        y.add_(x, alpha=a)


def norm(x: torch.Tensor) -> float:
    """‖x‖, summed in double precision; x: (d,) float32, contiguous."""
    loops = library()
    if loops is not None and x.device.type == CPU:
        return math.sqrt(loops.fedmpi_squares(len(x), x.data_ptr()))
    return float(torch.linalg.vector_norm(x, dtype=torch.float64))
