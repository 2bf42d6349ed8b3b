"""The paper's next-character LSTM: the torch module, and the same loss and gradient written out for a CPU.

`module` is the model as torch has it. `compiled` computes it with loops in C where these are installed.
"""

from __future__ import annotations

import torch

from fedmpi.config import Config
from fedmpi.models.device import CPU
from fedmpi.models.flat import FlatModule
from fedmpi.models.lstm.compiled import CompiledLSTM
from fedmpi.models.lstm.module import CharLSTM
from fedmpi.models.model import TrainableModel, learns_from
from fedmpi.native import library


@learns_from("text")
def make_lstm(config: Config, device: torch.device) -> TrainableModel:
    """The LSTM of [model]: compiled on a CPU where the loops are installed, else as torch computes it."""
    model = config.model
    module = CharLSTM(model.embedding, model.hidden, model.layers)
    loops = library()
    if device.type == CPU and loops is not None:
        return CompiledLSTM(module, loops)
    return FlatModule(module, device)
