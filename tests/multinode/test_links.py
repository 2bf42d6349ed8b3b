"""Communication on two hosts against what is known of the link between them: its rate, and the kernel's counters.

The server is alone on node1. A round's `down` is what node1 sends, its `up` what node2 sends, and the link between
is shaped to a rate in each direction. Medians over rounds: this machine's other business falls on some of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedmpi import open_record
from fedmpi.comm.timeline import PHASES, union
from tests.support.bed import Bed
from tests.support.link import transfer_seconds

# Four times the paper's LSTM. A worker sleeps for up to 1 ms between two looks for orders; on a θ of 0.5 MB, which
# takes 22 ms at 200 Mbit/s, that alone would be half of the tolerance.
THETA = 4 * 135_700
UP = 4 * 4 * THETA
SETTINGS = {
    "data.dim": THETA,
    "data.n": 8,
    "run.T": 10,
    "sampling.scheme": "uniform",
    "sampling.m": 4,
    "eval.every": 0,
}


def federate(bed: Bed, workers: int, **changes: object) -> Any:
    """The record of a run with the server on node1 and so many workers on node2."""
    settings = {**SETTINGS, **{name.replace("__", "."): value for name, value in changes.items()}}
    words = [word for key, value in settings.items() for word in ("-s", f"{key}={value}")]
    bed.fedmpi([1, workers], "run", "quadratic", *words, "-o", "run.h5", "--force")
    return open_record(bed.folder / "run.h5")


def median(record: Any, phase: str) -> float:
    return float(np.median(record.rounds[f"time_{phase}"]))


@pytest.mark.slow
def test_up_and_down_are_bytes_over_the_links_rate(two_hosts: Bed) -> None:
    waits = []
    for rate in ("200mbit", "50mbit"):
        two_hosts.rate(rate)
        with federate(two_hosts, 1) as record:
            rounds = record.rounds
            assert (rounds["up_bytes_logical"] == UP).all()
            assert (rounds["down_bytes_wire"] == 4 * THETA).all()
            assert median(record, "up") == pytest.approx(transfer_seconds(UP, rate), rel=0.1)
            assert median(record, "down") == pytest.approx(transfer_seconds(4 * THETA, rate), rel=0.1)
            waits.append(median(record, "wait"))
            shortest = median(record, "down")
    # Four times slower a link does not make anyone wait longer for the clients' work: that would be time taken
    # from `up` or `down`, of which the shortest is several times the tolerance.
    assert abs(waits[1] - waits[0]) < 0.05 * shortest


@pytest.mark.slow
def test_up_does_not_move_when_clients_work_longer(two_hosts: Bed) -> None:
    two_hosts.rate("50mbit")
    with federate(two_hosts, 1, client__K=10) as record:
        up, wait = median(record, "up"), median(record, "wait")
    with federate(two_hosts, 1, client__K=200) as record:
        assert median(record, "up") == pytest.approx(up, rel=0.1)
        assert median(record, "wait") > 5 * wait


@pytest.mark.slow
@pytest.mark.parametrize("rate", ["200mbit", "50mbit"])
def test_two_workers_share_the_link(two_hosts: Bed, rate: str) -> None:
    """The first worker to hold θ may send an update while the other still receives: both ways are full at once, and
    the phase is `down`. So here the time with an update in flight is taken from the updates themselves."""
    two_hosts.rate(rate)
    with federate(two_hosts, 2) as record:
        ends = record.rounds["cohort_end"].tolist()
        flights = [record.cohorts[a:b] for a, b in zip([0, *ends], ends, strict=False)]
        in_flight = [union(zip(flight["post_time"], flight["arrive_time"], strict=True)) for flight in flights]
        flown = [sum(b - a for a, b in intervals) for intervals in in_flight]
        assert (record.rounds["time_up"] <= np.array(flown) + 1e-6).all()
        assert np.median(flown) == pytest.approx(transfer_seconds(UP, rate), rel=0.1)
        assert median(record, "down") == pytest.approx(transfer_seconds(2 * 4 * THETA, rate), rel=0.1)


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_wire_bytes_are_what_the_kernel_counted(two_hosts: Bed, exchange: str) -> None:
    """Two runs, one longer: what both need to start falls out of the difference. Headers are 66 bytes a packet."""
    # Without a limit the kernel's queues overflow, and what it sends again is counted with what it sends.
    two_hosts.rate("500mbit")
    counted, ledger = [], []
    for T in (2, 7):
        before = [two_hosts.sent(host) for host in (2, 1)]
        with federate(two_hosts, 2, run__T=T, comm__exchange=exchange) as record:
            after = [two_hosts.sent(host) for host in (2, 1)]
            counted.append([(end - begin).payload for begin, end in zip(before, after, strict=True)])
            ledger.append([int(record.rounds[f"{way}_bytes_wire"].sum()) for way in ("up", "down")])
    up, down = np.subtract(ledger[1], ledger[0])
    assert up > 20e6
    assert np.subtract(counted[1], counted[0]) == pytest.approx([up, down], rel=0.01)


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_phases_add_up_to_the_round(two_hosts: Bed, exchange: str) -> None:
    with federate(two_hosts, 2, run__T=60, data__dim=135_700, comm__exchange=exchange) as record:
        rounds = record.rounds
        together = sum(rounds[f"time_{phase}"] for phase in PHASES)
        # Where one round ends the next begins, so their starts are an account of the wall time of its own.
        gaps = np.diff(rounds["wall_time"])
        assert all((rounds[f"time_{phase}"] >= 0).all() for phase in PHASES)
        assert np.median(np.abs(together[:-1] / gaps - 1)) < 0.01


SHIFTED = """
import sys
from fedmpi import Config, run
from fedmpi.comm.world import connect

world = connect()
if world.rank == 1:
    world.clock_shift = float(sys.argv[1])
settings = {"data.dim": 542_800, "data.n": 8, "sampling.scheme": "uniform", "sampling.m": 4, "run.T": 10}
run(Config.load("quadratic", {**settings, "eval.every": 0}), "run.h5", force=True, world=world)
"""


@pytest.mark.slow
def test_a_hosts_clock_three_seconds_ahead_moves_no_phase(two_hosts: Bed, tmp_path: Path) -> None:
    """Bound: θ's way down and an update's way up are measured to the clocks' error, far below a tenth of them."""
    from tests.support.commands import BIN

    two_hosts.rate("50mbit")
    (tmp_path / "shifted.py").write_text(SHIFTED)
    for shift in ("3.0", "-3.0"):
        done = two_hosts.run([1, 1], BIN / "python", "shifted.py", shift)
        assert done.returncode == 0, done.stderr
        with open_record(tmp_path / "run.h5") as record:
            assert median(record, "up") == pytest.approx(transfer_seconds(UP, "50mbit"), rel=0.1)
            assert median(record, "down") == pytest.approx(transfer_seconds(4 * THETA, "50mbit"), rel=0.1)
            assert (record.cohorts["post_time"] > 0).all()
            assert (record.cohorts["arrive_time"] > record.cohorts["post_time"]).all()
