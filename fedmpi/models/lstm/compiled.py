"""The LSTM's loss and gradient computed whole in C (native/lstm.c): one call per batch, the same bits on every CPU."""

from __future__ import annotations

import ctypes

import torch

from fedmpi.models.flat import FlatModule
from fedmpi.models.lstm.module import CharLSTM

Batch = tuple[torch.Tensor, torch.Tensor]


class CompiledLSTM(FlatModule):
    """A CharLSTM whose gradient is written by hand: what autograd gives, to rounding. On a CPU only."""

    def __init__(self, module: CharLSTM, loops: ctypes.CDLL) -> None:
        super().__init__(module, torch.device("cpu"))
        self.loops = loops
        self.sizes = (*module.embedding.weight.shape, module.lstm.hidden_size, module.lstm.num_layers)
        # Memory to compute in, with every step kept or not, and the shape of batch that it is for.
        self.memory: dict[bool, tuple[torch.Size, torch.Tensor]] = {}
        self.loss, self.correct = ctypes.c_double(), ctypes.c_double()

    def gradient(self, batch: Batch) -> torch.Tensor:
        """The mean cross-entropy of (x, y) at θ; ∇ is left in `grad`."""
        x, y = (part.contiguous() for part in batch)
        sizes, memory = self._prepare(x.shape, keep=True)
        addresses = (tensor.data_ptr() for tensor in (self.theta, x, y, self.grad, memory))
        self._check(self.loops.fedmpi_lstm_gradient(sizes, *addresses, ctypes.byref(self.loss)))
        return torch.tensor(self.loss.value, dtype=torch.float32)

    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """The cross-entropy and the number of correct predictions, summed over (x, y)."""
        x, y = (part.contiguous() for part in batch)
        sizes, memory = self._prepare(x.shape, keep=False)
        addresses = (tensor.data_ptr() for tensor in (self.theta, x, y, memory))
        found = ctypes.byref(self.loss), ctypes.byref(self.correct)
        self._check(self.loops.fedmpi_lstm_evaluate(sizes, *addresses, *found))
        return self.loss.value, self.correct.value

    def _prepare(self, shape: torch.Size, keep: bool) -> tuple[ctypes.Array[ctypes.c_long], torch.Tensor]:
        """The sizes for the loops, and memory for a batch of this shape; the last one's is reused if it fits."""
        sizes = (ctypes.c_long * 6)(*self.sizes, *shape)
        known, memory = self.memory.get(keep, (None, torch.empty(0)))
        if known != shape:
            self.memory.pop(keep, None)  # freed before the next is allocated
            memory = torch.empty(self.loops.fedmpi_lstm_memory(sizes, keep))
            self.memory[keep] = shape, memory
        return sizes, memory

    def _check(self, outside: int) -> None:
        if outside:
            raise IndexError(f"characters must be numbers in 0..{self.sizes[0] - 1}")
