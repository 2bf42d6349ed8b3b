"""The torch devices that this process can train on."""

from __future__ import annotations

import torch

from fedmpi.errors import ConfigError

AUTO = "auto"
CPU = "cpu"


def visible_devices() -> list[str]:
    """The names of the CUDA devices that this process sees; none of them is initialised."""
    return [f"cuda:{k}" for k in range(torch.cuda.device_count())] if torch.cuda.is_available() else []


def torch_device(name: str) -> torch.device:
    """The torch device of that name, or a ConfigError if it cannot be used; "auto" is the first GPU, else the CPU."""
    try:
        device = torch.device([*visible_devices(), CPU][0] if name == AUTO else name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"client.device = '{name}': not usable here ({reason}); try 'cpu'") from None
    return device
