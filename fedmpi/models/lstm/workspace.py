"""The memory that `compiled` computes in, allocated once per shape of batch, and its addresses for the loops in C."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedmpi.data.text import VOCABULARY

Tensor = torch.Tensor


@dataclass(frozen=True)
class Weights:
    """A layer's part of θ or of ∇: (4H, inputs), (4H, H), (4H,), (4H,)."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor


@dataclass(frozen=True)
class Parts:
    """θ or ∇ by name, as views."""

    embedding: Tensor
    layers: list[Weights]
    output_weight: Tensor
    output_bias: Tensor

    @staticmethod
    def of(views: list[Tensor]) -> Parts:
        """The parts, from views in the order of CharLSTM's parameters."""
        embedding, *lstm, output_weight, output_bias = views
        return Parts(embedding, [Weights(*lstm[k : k + 4]) for k in range(0, len(lstm), 4)], output_weight, output_bias)


class Operands:
    """One layer's θ as the products take it, and room for the derivatives.

    A layer's input at step t is [h of the layer below at t | its own h at t − 1]: (B, 2H), multiplied by `weight`. The
    first layer's is its own h alone: what a character adds to the sums of its gates, E W_ihᵀ + b, is a row of `table`.
    Later layers' table is one row, b.
    """

    def __init__(self, hidden: int, first: bool) -> None:
        self.hidden, self.first, self.width = hidden, first, hidden if first else 2 * hidden
        gates = 4 * hidden
        self.weight, self.dweight = torch.zeros(2, self.width, gates)
        self.weight_t = torch.zeros(gates, self.width)
        self.table, self.dtable = torch.zeros(2, VOCABULARY if first else 1, gates)

    def take(self, weights: Weights, embedding: Tensor) -> None:
        """Copy a layer's part of θ."""
        torch.cat([weights.hh] if self.first else [weights.ih, weights.hh], dim=1, out=self.weight_t)
        self.weight.copy_(self.weight_t.t())
        bias = weights.bias_ih + weights.bias_hh
        if self.first:
            torch.addmm(bias, embedding, weights.ih.t(), out=self.table)
        else:
            self.table[0].copy_(bias)


class Space:
    """Memory for windows of `length` characters, `rows` at a time. With `keep`, every time step has its own memory,
    which the gradient reads; without, all steps share one."""

    def __init__(self, rows: int, length: int, operands: list[Operands], keep: bool) -> None:
        self.rows, self.length = rows, length
        self.layers = [Layer(rows, length, of, keep) for of in operands]
        # The last layer's h, from which scores are made, and the derivative by it.
        self.top, self.dtop = torch.zeros(2, rows, operands[-1].hidden)
        for layer, above in zip(self.layers, self.layers[1:], strict=False):
            layer.connect(above.inputs[:length], above.dinputs)
        self.layers[-1].connect([self.top] * length, self.dtop)

    def start(self, x: Tensor) -> None:
        """Copy windows (B, T), and zero the sums and the states before the first step."""
        self.layers[0].index.copy_(x.t())
        for layer in self.layers:
            for part in (layer.inputs[0], layer.c[0], layer.dinputs, layer.dc, layer.of.dtable):
                part.zero_()


class Layer:
    """The memory of one layer."""

    def __init__(self, rows: int, length: int, of: Operands, keep: bool) -> None:
        self.rows, self.length, self.of = rows, length, of
        kept = length if keep else 1
        inputs, c = torch.zeros(kept + keep, rows, of.width), torch.zeros(kept + keep, rows, of.hidden)
        gates = torch.zeros(kept, rows, 4 * of.hidden)
        self.inputs, self.c, self.gates = steps(inputs, length + 1), steps(c, length + 1), steps(gates, length)
        self.all_inputs, self.all_gates = inputs[:kept].flatten(0, 1), gates.flatten(0, 1)
        self.dinputs, self.dc = torch.zeros(rows, of.width), torch.zeros(rows, of.hidden)
        # Rows of the table: characters in the first layer, 0 in later ones.
        self.index = torch.zeros((length, rows), dtype=torch.int64)

    def connect(self, above: list[Tensor], dabove: Tensor) -> None:
        """Set where h is written at each step besides this layer's next input, and where its derivative is read."""
        of, table, dtable, dc = self.of, *map(address, (self.of.table, self.of.dtable, self.dc))
        c, gates, index = (list(map(address, parts)) for parts in (self.c, self.gates, self.index))
        h, dh = [address(part[:, -of.hidden :]) for part in self.inputs], address(self.dinputs[:, -of.hidden :])
        # In the order of the functions' arguments in native/lstm.c.
        sizes, d_from = (self.rows, of.hidden), (dh, of.width, address(dabove), dabove.stride(0))
        self.forward_arguments, self.backward_arguments = [], []
        for t in range(self.length):
            h_to = (h[t + 1], of.width, address(above[t]), above[t].stride(0))
            self.forward_arguments.append((*sizes, table, index[t], c[t], gates[t], c[t + 1], *h_to))
            self.backward_arguments.append((*sizes, c[t], c[t + 1], *d_from, index[t], dc, gates[t], dtable))


def steps(memory: Tensor, count: int) -> list[Tensor]:
    """The memory of each of `count` steps: its own, or that of the only one."""
    parts = list(memory.unbind())
    return parts if len(parts) == count else parts * count


def address(memory: Tensor) -> int:
    return memory.data_ptr()
