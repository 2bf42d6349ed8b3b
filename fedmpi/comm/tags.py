"""The rank of the server, and the tags of messages. Imports nothing, so that a rank can start without torch."""

from __future__ import annotations

from enum import IntEnum

SERVER = 0


class Tag(IntEnum):
    """One tag per kind of message between the server and a worker."""

    COMMAND = 1
    UPDATE = 2
    REPORT = 3
    EVALUATION = 4
    NOTICE = 5
    PROBE = 6
    THETA = 7
    CLOCK = 8
    LINE = 9
    RESIDUAL = 10
    TREE = 11
    REQUEST = 12
    ASSIGNMENT = 13
    TIMELINE = 14
