"""How ranks and messages are called."""

from __future__ import annotations

from enum import IntEnum

SERVER = 0


class Tag(IntEnum):
    """One tag per kind of message between the server and a worker."""

    ORDER = 1
    UPDATE = 2
    REPORT = 3
    EVALUATION = 4
    NEWS = 5
    PROBE = 6
    THETA = 7
    CLOCK = 8
    LINE = 9
    LEFT = 10
    TREE = 11
    ASK = 12
    GRANT = 13
    SPANS = 14
