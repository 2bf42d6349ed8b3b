"""The LSTM's loss and gradient written out for a CPU: torch's matrix products, and one pass in C for the rest.

Faster than nn.LSTM, because the embedding and the first layer's input product are one look-up in a table of 100 rows; a
time step of a layer is one product forward and one backward; the gradient by its weights is one product for all steps;
nothing is allocated per step; and the gates are computed, and differentiated, in one pass.
"""

from __future__ import annotations

import ctypes

import torch
from torch.nn import functional

from fedmpi.data.text import VOCABULARY
from fedmpi.models.flat import FlatModule
from fedmpi.models.lstm.module import CharLSTM
from fedmpi.models.lstm.workspace import Operands, Parts, Space

# Windows evaluated at once: enough for fast products, few enough for their gates (400 kB) to stay in the cache.
EVALUATION_ROWS = 256

Batch = tuple[torch.Tensor, torch.Tensor]


class CompiledLSTM(FlatModule):
    """A CharLSTM whose gradient is written by hand: what autograd gives, to rounding. On a CPU only."""

    def __init__(self, module: CharLSTM, loops: ctypes.CDLL) -> None:
        super().__init__(module, torch.device("cpu"))
        parameters = list(module.parameters())
        self.theta_parts = Parts.of([parameter.detach() for parameter in parameters])
        self.grad_parts = Parts.of([parameter.grad for parameter in parameters if parameter.grad is not None])
        self.forward_step, self.backward_step = loops.fedmpi_lstm_forward, loops.fedmpi_lstm_backward
        self.operands = [Operands(module.lstm.hidden_size, first=k == 0) for k in range(len(self.theta_parts.layers))]
        self.spaces: dict[bool, Space] = {}

    @torch.no_grad()
    def gradient(self, batch: Batch) -> torch.Tensor:
        """The mean cross-entropy of (x, y) at θ; ∇ is left in `grad`."""
        x, y = batch
        self.take_theta()
        space = self.space(x, keep=True)
        logs = functional.log_softmax(self.scores(x, space), dim=1)
        loss = functional.nll_loss(logs, y)
        # ∂ loss / ∂ scores = (softmax − one-hot(y)) / B
        dscores = logs.exp_().scatter_add_(1, y[:, None], torch.full((len(y), 1), -1.0)).div_(len(y))
        self.backward(dscores, space)
        return loss

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> tuple[float, float]:
        """The cross-entropy and the number of correct predictions, summed over (x, y)."""
        self.take_theta()
        loss, correct = 0.0, 0.0
        pieces = max(1, -(-len(batch[1]) // EVALUATION_ROWS))
        for x, y in zip(*(part.chunk(pieces) for part in batch), strict=True):
            scores = self.scores(x, self.space(x, keep=False))
            loss += float(functional.cross_entropy(scores, y, reduction="sum"))
            correct += float((scores.argmax(dim=1) == y).sum())
        return loss, correct

    def space(self, x: torch.Tensor, keep: bool) -> Space:
        """The memory for a batch of this shape; the last one's is reused if it fits."""
        rows, length = x.shape
        space = self.spaces.get(keep)
        if space is None or (space.rows, space.length) != (rows, length):
            self.spaces.pop(keep, None)
            space = self.spaces[keep] = Space(rows, length, self.operands, keep)
        return space

    def take_theta(self) -> None:
        for operands, weights in zip(self.operands, self.theta_parts.layers, strict=True):
            operands.take(weights, self.theta_parts.embedding)

    def scores(self, x: torch.Tensor, space: Space) -> torch.Tensor:
        """The (B, 100) scores of windows x: (B, T); what the gradient needs is left in `space`."""
        # The loops in C do not check indices.
        if x.numel() and not 0 <= int(x.min()) <= int(x.max()) < VOCABULARY:
            raise IndexError(f"characters must be numbers in 0..{VOCABULARY - 1}")
        space.start(x)
        for t in range(space.length):
            for layer in space.layers:
                torch.mm(layer.inputs[t], layer.of.weight, out=layer.gates[t])
                self.forward_step(*layer.forward_arguments[t])
        return torch.addmm(self.theta_parts.output_bias, space.top, self.theta_parts.output_weight.t())

    def backward(self, dscores: torch.Tensor, space: Space) -> None:
        """Write ∇ into `grad`, from the derivative by the scores and what `scores` left in `space`."""
        torch.mm(dscores.t(), space.top, out=self.grad_parts.output_weight)
        torch.sum(dscores, dim=0, out=self.grad_parts.output_bias)
        torch.mm(dscores, self.theta_parts.output_weight, out=space.dtop)
        for t in reversed(range(space.length)):
            for layer in reversed(space.layers):
                # Overwrites the gates with the derivatives by their sums.
                self.backward_step(*layer.backward_arguments[t])
                torch.mm(layer.gates[t], layer.of.weight_t, out=layer.dinputs)
            if t == space.length - 1:
                # Only the last step has scores.
                space.dtop.zero_()
        for layer, weights, grads in zip(space.layers, self.theta_parts.layers, self.grad_parts.layers, strict=True):
            of = layer.of
            # All steps in one product; transposed, it would take half as long again.
            torch.mm(layer.all_inputs.t(), layer.all_gates, out=of.dweight)
            grads.hh.copy_(of.dweight[-of.hidden :].t())
            torch.sum(of.dtable, dim=0, out=grads.bias_ih)
            grads.bias_hh.copy_(grads.bias_ih)
            if of.first:
                torch.mm(of.dtable.t(), self.theta_parts.embedding, out=grads.ih)
                torch.mm(of.dtable, weights.ih, out=self.grad_parts.embedding)
            else:
                grads.ih.copy_(of.dweight[: of.hidden].t())
