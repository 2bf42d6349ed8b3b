"""Where it turns: from how many workers on more do not help, which exchange is the faster, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fedmpi.scale.machine import Machine
from fedmpi.scale.model import JobShape, handling, predict

# A round that is longer by less than this share is as short, for those who pay for workers.
AS_GOOD = 0.02
# All numbers of workers up to this are looked at; beyond, in steps of one in a hundred.
EVERY = 1024


@dataclass(frozen=True)
class Turn:
    """One exchange on one machine: the fewest workers with which a round is as short as it gets, its seconds then, and
    what keeps it from being shorter."""

    exchange: str
    workers: int
    seconds: float
    limit: str


def counts(most: int) -> Iterator[int]:
    """1, 2, 3, …, and `most`."""
    W = 1
    while most > W:
        yield W
        W += max(1, W // 100) if W >= EVERY else 1
    yield most


def turn(machine: Machine, job: JobShape) -> Turn:
    """From how many workers on more do not help: of those up to N (a worker without a client has nothing to do)."""
    seconds = {W: predict(machine, replace(job, workers=W)).total for W in counts(job.m)}
    shortest = min(seconds.values())
    W = next(W for W, each in seconds.items() if each <= (1 + AS_GOOD) * shortest)
    return Turn(job.exchange, W, seconds[W], limit(machine, replace(job, workers=W)))


def limit(machine: Machine, job: JobShape) -> str:
    """What takes most of a round's time, in words."""
    phases, b, rates = predict(machine, job), job.theta_bytes, machine.at(job.theta_bytes)
    parts = {
        "training": phases.wait,
        "sending θ": phases.down,
        "what a round takes with no data at all": phases.fixed,
        "the server's passes over θ": b * rates.step,
    }
    if job.exchange == "reduced":
        adding = machine.own_update + b * rates.own_add
        own = adding / max(1e-300, job.compute + adding)
        parts["training"] = phases.wait * (1 - own)
        parts["the workers' adding"] = phases.wait * own
        parts["the reduction"] = phases.up
    else:
        messages = job.m * handling(machine, job)
        parts["the server's handling of messages"] = messages
        parts["the server's link"] = phases.up - messages
        parts["the server's adding"] = job.m * b * rates.add
    return max(parts, key=lambda name: parts[name])


def arrival_seconds(machine: Machine, job: JobShape) -> float:
    """s: what the server needs to take and add one update under `per-client`, on average."""
    phases = predict(machine, replace(job, exchange="per-client", compute=0.0))
    return (phases.up + phases.aggregate - job.theta_bytes * machine.at(job.theta_bytes).step) / job.m


def link_seconds(machine: Machine, job: JobShape) -> float:
    """What the bytes of all updates take on the server's link if every worker is on another node: N b G."""
    return job.m * job.theta_bytes * machine.link


def keeps_up(machine: Machine, job: JobShape) -> int:
    """How many workers the server keeps up with under `per-client`: κ/s. More send faster than it takes updates."""
    each = arrival_seconds(machine, job)
    return int(job.compute / each) if each > 0 else job.workers


def crossing(machine: Machine, job: JobShape) -> int | None:
    """The number of workers from which on `reduced` is the faster, up to the asked one; None if it is not there.

    Where N is no multiple of W the two times may cross more than once; this is the last time they do.
    """
    found = None
    for W in reversed(list(counts(job.workers))):
        here = replace(job, workers=W)
        if total(machine, here, "reduced") >= total(machine, here, "per-client"):
            break
        found = W
    return found


def total(machine: Machine, job: JobShape, exchange: str) -> float:
    return predict(machine, replace(job, exchange=exchange)).total


def advice(machine: Machine, job: JobShape) -> str:
    """Which exchange to choose for this job, in one sentence."""
    gathered, reduced = (total(machine, job, exchange) for exchange in ("per-client", "reduced"))
    if reduced >= gathered:
        return (
            f"Choose per-client: at W = {job.workers} it is as fast as reduced or faster, and every update is measured "
            "on its own."
        )
    if gathered <= 1.1 * reduced:
        return (
            f"Choose per-client unless every second counts: at W = {job.workers} reduced is only "
            f"{1 - reduced / gathered:.0%} faster, and does not show single updates."
        )
    why = limit(machine, replace(job, exchange="per-client"))
    return (
        f"Choose reduced: at W = {job.workers} a round is {gathered / reduced:.1f} times as fast; under per-client the "
        f"most time goes to {why}. Keep per-client if single updates are what you measure."
    )
