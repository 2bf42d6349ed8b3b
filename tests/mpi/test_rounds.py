"""What a round leaves behind: both ledgers, the phases, who trained what, and rounds in which nobody is drawn."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

from fedmpi import Config, open_record, run
from fedmpi.client import LocalClients, Training
from fedmpi.comm.messages import ASSIGNMENT, COMMAND, REPORT, UPDATE_INFO
from fedmpi.comm.timeline import PHASES
from fedmpi.comm.world import World, connect
from fedmpi.data import Dataset
from fedmpi.job.prepare import Components
from fedmpi.job.start import run_job
from tests.support.ranks import COMM, fail_together

pytestmark = pytest.mark.mpi
CLIENTS = 20
HANG_SECONDS = 60


def control_bytes(workers: int, called: int, assigned: int, updates: int) -> int:
    """Of one round: a command and a report per worker, client and ω of each called client, assignments, and what goes
    with each update."""
    fixed = COMMAND.itemsize + REPORT.itemsize
    return workers * fixed + ASSIGNMENT.itemsize * (called + assigned) + UPDATE_INFO.itemsize * updates


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_both_ledgers_count_every_byte(shared_path: Path, exchange: str) -> None:
    config = Config.load("quadratic", {"run.T": 4, "sampling.scheme": "uniform", "comm.exchange": exchange})
    run(config, shared_path / "run.h5")
    with fail_together():
        if COMM.rank == 0:
            rounds, workers, theta = open_record(shared_path / "run.h5").rounds, COMM.size - 1, 20 * 4
            up_wire = {"per-client": 5 * theta if workers else 0, "reduced": workers * 20 * 8}[exchange]
            expected = {
                "N": 5,
                "down_bytes_logical": 5 * theta,
                "up_bytes_logical": 5 * theta,
                "down_bytes_wire": workers * theta,
                "up_bytes_wire": up_wire,
                "control_bytes_wire": control_bytes(workers, called=5, assigned=0, updates=5) if workers else 0,
            }
            found = {name: set(rounds[name].tolist()) for name in expected}
            assert found == {name: {value} for name, value in expected.items()}


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_phases_are_disjoint_and_add_up(shared_path: Path, exchange: str) -> None:
    run(Config.load("quadratic", {"run.T": 20, "comm.exchange": exchange}), shared_path / "run.h5")
    with fail_together():
        if COMM.rank == 0:
            rounds = open_record(shared_path / "run.h5").rounds
            together = sum(rounds[f"time_{phase}"] for phase in PHASES)
            np.testing.assert_allclose(together, rounds["time_total"], rtol=1e-9)
            assert [phase for phase in PHASES if (rounds[f"time_{phase}"] < 0).any()] == []


def test_every_client_trains_at_its_home(shared_path: Path) -> None:
    run(Config.load("quadratic", {"run.T": 20}), shared_path / "run.h5")
    with fail_together():
        if COMM.rank == 0:
            record = open_record(shared_path / "run.h5")
            cohorts = record.cohorts
            assert (cohorts["rank"] == record.clients["rank"][cohorts["client"]]).all()
            assert set(record.clients["rank"]) == set(range(min(1, COMM.size - 1), COMM.size))
            assert (cohorts["arrive_time"] >= cohorts["post_time"]).all()


class ClientZeroIsLast(LocalClients):
    """Training client 0 takes until all other clients of the round are trained: each leaves a file in `folder`."""

    def __init__(self, config: Config, dataset: Dataset, folder: Path) -> None:
        super().__init__(config, dataset)
        self.folder = folder

    def train(self, i: int, t: int, delta: np.ndarray, between_steps: object = None) -> Training:
        trained = super().train(i, t, delta)
        if i:
            (self.folder / f"{t}.{i}.trained").touch()
        deadline = time.monotonic() + HANG_SECONDS
        while i == 0 and len(list(self.folder.glob(f"{t}.*.trained"))) < CLIENTS - 1:
            assert time.monotonic() < deadline, "the other clients are not trained meanwhile"
            time.sleep(0.01)
        return trained._replace(compute_time=0.5 if i == 0 else 0.001)


class ClientZeroLast(Components):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def clients(self, config: Config, dataset: Dataset) -> LocalClients:
        return ClientZeroIsLast(config, dataset, self.folder)


@pytest.mark.mpi(min_size=3)
@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_free_workers_take_the_clients_that_a_busy_one_would_keep_waiting(shared_path: Path, exchange: str) -> None:
    where = {"comm.placement": "dynamic", "comm.exchange": exchange}
    config = Config.load("quadratic", {"run.T": 2, "data.n": CLIENTS, "sampling.scheme": "full", **where})
    run_job([config], [shared_path / "run.h5"], connect(), components=ClientZeroLast(shared_path))
    with fail_together():
        if COMM.rank == 0:
            record = open_record(shared_path / "run.h5")
            for rows in np.split(record.cohorts, [CLIENTS]):
                slow = rows["rank"][rows["client"] == 0]
                assert rows["client"].tolist() == list(range(CLIENTS))
                assert (rows["rank"] == slow).sum() == 1
            # One client each to start with, an assignment for each of the others, and a last, empty one to each worker.
            workers = COMM.size - 1
            expected = control_bytes(workers, called=workers, assigned=20, updates=20)
            assert (record.rounds["control_bytes_wire"] == expected).all()


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_a_round_that_draws_nobody_is_still_a_round(shared_path: Path, exchange: str) -> None:
    settings = {"run.T": 12, "sampling.scheme": "binomial", "sampling.m": 1, "comm.exchange": exchange}
    run(Config.load("quadratic", {**settings, "record.theta_every": 1}), shared_path / "run.h5")
    with fail_together():
        if COMM.rank == 0:
            record = open_record(shared_path / "run.h5")
            _, history = record.history
            empty = np.flatnonzero(record.rounds["N"] == 0)
            assert len(record.rounds) == 12
            assert 0 < len(empty) < 12
            unchanged = [t for t in range(12) if (history[t] == history[t + 1]).all()]
            assert unchanged == empty.tolist()


def test_an_update_that_is_not_finite_can_be_left_out(shared_path: Path) -> None:
    settings = {"run.T": 3, "client.K": 400, "client.eta_l": 1e3, "server.on_nonfinite": "skip", "eval.every": 0}
    run(Config.load("quadratic", settings), shared_path / "run.h5")
    with fail_together():
        if COMM.rank == 0:
            record = open_record(shared_path / "run.h5")
            assert (record.rounds["rejected"] == record.rounds["N"]).all()
            assert not record.theta.any()
            assert not np.isfinite(record.cohorts["delta_norm"]).any()


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
@pytest.mark.parametrize(("scheme", "scalars"), [("optimal", 1), ("optimal-approx", 9), ("power-of-choice", 1)])
def test_a_two_step_round_asks_many_and_uploads_few(
    shared_path: Path, scheme: str, scalars: int, exchange: str
) -> None:
    """optimal: θ to all n, n scalars, N updates; power-of-choice: θ and scalars to d = 2m candidates only."""
    run(
        Config.load("quadratic", {"run.T": 8, "sampling.scheme": scheme, "comm.exchange": exchange}),
        shared_path / "r.h5",
    )
    with fail_together():
        if COMM.rank == 0:
            record = open_record(shared_path / "r.h5")
            rounds, workers, theta = record.rounds, COMM.size - 1, 20 * 4
            asked = 10 if scheme == "power-of-choice" else 20
            updates = workers * 160 if exchange == "reduced" else rounds["N"] * theta if workers else 0
            assert (rounds["down_bytes_logical"] == asked * theta).all()
            assert (rounds["up_bytes_logical"] == rounds["N"] * theta + 8 * asked * scalars).all()
            assert (rounds["down_bytes_wire"] == workers * theta).all()
            assert (rounds["up_bytes_wire"] == updates + (8 * asked if workers else 0)).all()
            assert len(record.cohorts) == rounds["N"].sum()
            assert 0 < rounds["N"].mean() < asked


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("down", ["p2p", "p2p-per-client"])
@pytest.mark.parametrize("scheme", ["md", "optimal"])
def test_theta_goes_down_by_messages_of_its_own(shared_path: Path, scheme: str, down: str, overlap: bool) -> None:
    """p2p-per-client: wire bytes equal logical bytes both ways (but for the scalars' width); θ is the same θ."""
    settings = {"run.T": 6, "sampling.scheme": scheme, "comm.overlap": overlap}
    run(Config.load("quadratic", settings), shared_path / "bcast.h5")
    run(Config.load("quadratic", {**settings, "comm.down": down}), shared_path / "p2p.h5")
    with fail_together():
        if COMM.rank == 0:
            bcast, p2p = open_record(shared_path / "bcast.h5"), open_record(shared_path / "p2p.h5")
            rounds, cohorts, workers = p2p.rounds, p2p.cohorts, COMM.size - 1
            asked = rounds["N"] if scheme == "md" else 20
            hosts = [len(set(cohorts["rank"][cohorts["t"] == t])) if scheme == "md" else workers for t in range(6)]
            copies = asked if down == "p2p-per-client" else hosts
            assert bcast.theta.tobytes() == p2p.theta.tobytes()
            assert (rounds["down_bytes_wire"] == (np.array(copies) * 80 if workers else 0)).all()
            if workers and down == "p2p-per-client":
                assert (rounds["down_bytes_wire"] == rounds["down_bytes_logical"]).all()
                assert (rounds["up_bytes_wire"] == rounds["up_bytes_logical"]).all()


@pytest.mark.parametrize("compression", ["float16", "bfloat16", "int8", "topk"])
def test_compressed_updates_weigh_less_and_theta_stays_one(shared_path: Path, compression: str) -> None:
    size = {"float16": 44, "bfloat16": 40, "int8": 24, "topk": 8 * 5}[compression]
    settings = {"run.T": 6, "comm.compression": compression, "comm.topk": 0.25, "run.seed": 2}
    run(Config.load("quadratic", settings), shared_path / "a.h5")
    run(Config.load("quadratic", {**settings, "comm.exchange": "reduced"}), shared_path / "b.h5")
    with fail_together():
        if COMM.rank == 0:
            alone = World(MPI.COMM_SELF.Dup())
            run(Config.load("quadratic", settings), shared_path / "alone.h5", world=alone)
            run(Config.load("quadratic", {"run.T": 6, "run.seed": 2}), shared_path / "plain.h5", world=alone)
            a, b, one, plain = (open_record(shared_path / f"{name}.h5") for name in ("a", "b", "alone", "plain"))
            assert a.theta.tobytes() == b.theta.tobytes() == one.theta.tobytes() != plain.theta.tobytes()
            assert np.linalg.norm(a.theta - plain.theta) < 0.5 * np.linalg.norm(plain.theta)
            assert (a.rounds["up_bytes_logical"] == a.rounds["N"] * size).all()
            assert COMM.size == 1 or (a.rounds["up_bytes_wire"] == a.rounds["up_bytes_logical"]).all()


@pytest.mark.parametrize("scheme", ["md", "optimal", "optimal-approx", "power-of-choice"])
def test_the_virtual_federation_takes_the_time_of_its_links(shared_path: Path, scheme: str) -> None:
    """80 bytes at 640 bit/s are a second each way; latency 0.25 s; clients so fast that training takes no time."""
    links = {"network.enabled": True, "network.latency": 0.25, "network.down": 640, "network.up": 640}
    links["network.speed"] = 1e12
    run(Config.load("quadratic", {"run.T": 5, "sampling.scheme": scheme, **links}), shared_path / "v.h5")
    with fail_together():
        if COMM.rank == 0:
            rounds = open_record(shared_path / "v.h5").rounds
            # θ down and the update up; a probe adds a scalar of 0.1 s and a call there and back, AOCS four more
            # messages of 0.2 s with a call there and back each.
            scalars = {
                "md": 0,
                "optimal": 0.1 + 0.5,
                "power-of-choice": 0.1 + 0.5,
                "optimal-approx": 0.1 + 0.5 + 4 * 0.7,
            }
            drawn = rounds["N"] > 0
            np.testing.assert_allclose(rounds["virtual_total"][drawn], 2.5 + scalars[scheme], atol=1e-6)
            assert (rounds["virtual_straggler"][drawn] >= 0).all()


@pytest.mark.parametrize("shift", [3.0, -3.0])
def test_a_clock_that_is_three_seconds_off_changes_nothing(shared_path: Path, shift: float) -> None:
    world = connect()
    world.clock_shift = shift * world.rank
    run(Config.load("quadratic", {"run.T": 30}), shared_path / "off.h5", world=world)
    with fail_together():
        if COMM.rank == 0:
            off = open_record(shared_path / "off.h5")
            rounds, cohorts = off.rounds, off.cohorts
            found, error = off.table("/ranks/clock_offset"), off.table("/ranks/clock_error")
            assert (np.abs(found - shift * np.arange(COMM.size)) <= error + 1e-6).all()
            assert (error < abs(shift) / 2).all(), "the bound says nothing"
            assert len(rounds) == 30
            np.testing.assert_allclose(
                sum(rounds[f"time_{phase}"] for phase in PHASES), rounds["time_total"], rtol=1e-9
            )
            # On the server's clock an update is posted after its round has begun, and before it arrives. A worker's
            # own clock would show the one or the other 3 s off; the record then has the time of arrival for both.
            assert (cohorts["post_time"] >= -rounds["clock_error"][cohorts["t"]]).all()
            assert (cohorts["post_time"] <= cohorts["arrive_time"]).all()
            assert COMM.size == 1 or (cohorts["post_time"] < cohorts["arrive_time"]).any()
            assert (cohorts["arrive_time"] <= rounds["time_total"][cohorts["t"]]).all()


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
def test_a_slow_worker_is_waited_for_and_its_update_is_not_called_slow(
    shared_path: Path, exchange: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last rank sleeps 0.2 s before it trains each client: that is neither `down` nor `up`.

    A busy machine can only add to these times: all bounds hold whatever else it does.
    """
    original = LocalClients.train

    def slow(self: LocalClients, *arguments: object, **options: object) -> Training:
        time.sleep(0.2 if COMM.rank == COMM.size - 1 else 0.0)
        training = original(self, *arguments, **options)
        return training._replace(compute_time=training.compute_time + 0.2) if COMM.rank == COMM.size - 1 else training

    monkeypatch.setattr(LocalClients, "train", slow)
    settings = {"run.T": 3, "data.n": 6, "sampling.scheme": "full", "comm.exchange": exchange, "eval.every": 0}
    run(Config.load("quadratic", settings), shared_path / "slow.h5")
    with fail_together():
        if COMM.rank == 0:
            with open_record(shared_path / "slow.h5") as record:
                hosts = np.unique(record.clients["rank"])
                for t, seen in enumerate(record.rounds):
                    compute = record.ranks["compute_time"][t][hosts]
                    check_slow_round(exchange, seen, record.cohorts[record.cohorts["t"] == t], compute)


def check_slow_round(exchange: str, seen: np.void, updates: np.ndarray, compute: np.ndarray) -> None:
    """seen: a row of /rounds; updates: its rows of /cohorts; compute: its training time on each rank that trains."""
    error = seen["clock_error"] + 1e-6
    of_slow = np.sort(updates["post_time"][updates["rank"] == COMM.size - 1])
    slept = 0.2 * (1 + np.arange(len(of_slow)))
    assert (of_slow >= slept - error).all()
    # θ is down when the last worker holds it, which is before each of them starts to train.
    first = {rank: updates["post_time"][updates["rank"] == rank].min() for rank in set(updates["rank"].tolist())}
    trains = [post - (0.2 if rank == COMM.size - 1 else 0.0) for rank, post in first.items()]
    assert seen["time_down"] <= max(trains) + error
    if exchange == "per-client":
        assert seen["time_up"] <= (updates["arrive_time"] - updates["post_time"]).sum() + 1e-9
    else:
        assert seen["time_up"] <= seen["time_total"] - slept[-1] + error
    assert compute[-1] >= slept[-1]
    assert seen["skew"] == pytest.approx(compute.max() - compute.mean())
