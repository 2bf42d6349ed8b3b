"""The errors a user can cause. Each message is one sentence that says what to do."""

from __future__ import annotations


class FedmpiError(Exception):
    """Anything fedmpi reports in one sentence; exit code 1 unless a subclass says otherwise."""

    exit_code = 1


class ConfigError(FedmpiError):
    """A setting that cannot work: the message names the key, the value given and what is allowed."""

    exit_code = 2


class DataError(FedmpiError):
    """A dataset that is missing, damaged or not what it claims to be."""

    exit_code = 2


class RecordError(FedmpiError):
    """A run file that cannot be read or written."""

    exit_code = 2


class Stopped(FedmpiError):
    """A signal asked the job to end; it has left a checkpoint to go on from."""

    exit_code = 3


class Diverged(FedmpiError):
    """An update that is not finite, under server.on_nonfinite = "stop"."""


def describe(error: BaseException) -> str:
    """An error in one sentence."""
    return str(error) if isinstance(error, FedmpiError) else f"{type(error).__name__}: {error}"
