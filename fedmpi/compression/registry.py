"""The registry of codecs. A new codec: one class in `codecs`, one line here, and its name in config/tables.py."""

from __future__ import annotations

from collections.abc import Callable

from fedmpi.compression.codecs import BFloat16, Codec, Float16, Int8, TopK
from fedmpi.config import CommSettings
from fedmpi.plugin import find

# The comm.compression that means no codec: the update is sent as it is.
NONE = "none"

CODECS: dict[str, Callable[[int, CommSettings], Codec]] = {
    "float16": Float16,
    "bfloat16": BFloat16,
    "int8": Int8,
    "topk": TopK,
}
"""The codecs by their names in comm.compression; each is made from d and the settings of [comm]."""


def make_codec(settings: CommSettings, d: int) -> Codec | None:
    """The codec of `comm.compression` for updates of d entries; None for "none"."""
    if settings.compression == NONE:
        return None
    codec: Codec = find(CODECS, settings.compression, "comm.compression")(d, settings)
    return codec
