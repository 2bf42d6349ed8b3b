"""One θ: the same bits for any number of ranks and either exchange, and those of the oracle up to rounding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from fedmpi import Config, open_record, run
from fedmpi.comm.world import World
from fedmpi.data import load_dataset
from tests import reference
from tests.support.ranks import COMM, fail_together

pytestmark = pytest.mark.mpi

QUADRATIC = {"run.T": 6, "data.n": 11, "sampling.m": 4, "eval.every": 2, "record.theta_every": 1}
LSTM = {
    "run.T": 2,
    "data.n": 6,
    "data.samples": 40,
    "client.K": 2,
    "client.B": 8,
    "sampling.m": 3,
    "eval.every": 2,
    "eval.max_samples": 10,
    "record.theta_every": 1,
}


def alone_and_together(preset: str, settings: dict[str, Any], path: Path) -> tuple[Any, Any] | None:
    """On rank 0, the records of the same run in one process and on all ranks; None elsewhere."""
    config = Config.load(preset, settings)
    if COMM.rank == 0:
        plain = config.replace({"comm.exchange": "per-client", "server.hosts_clients": False})
        run(plain, path / "alone.h5", force=True, world=World(MPI.COMM_SELF.Dup()))
    run(config, path / "together.h5", force=True)
    return (open_record(path / "alone.h5"), open_record(path / "together.h5")) if COMM.rank == 0 else None


def bits(record: Any) -> dict[str, bytes]:
    """What must be the same in every record of a run, by name."""
    drawn = {f"cohorts.{name}": record.cohorts[name].tobytes() for name in ("t", "client", "omega")}
    history, evals = record.history[1].tobytes(), record.evals.tobytes()
    return {"theta": record.theta.tobytes(), "history": history, "evals": evals, **drawn}


def assert_same_run(records: tuple[Any, Any] | None) -> None:
    """Collective. Fail on all ranks if rank 0's two records differ in any bit that counts."""
    with fail_together():
        if records is not None:
            alone, together = map(bits, records)
            assert [name for name in alone if alone[name] != together[name]] == []


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
@pytest.mark.parametrize("hosts_clients", [False, True])
@pytest.mark.parametrize("scheme", ["full", "md", "uniform", "binomial", "clustered", "optimal", "power-of-choice"])
def test_quadratic_is_the_same_bits(shared_path: Path, scheme: str, hosts_clients: bool, exchange: str) -> None:
    settings = {
        **QUADRATIC,
        "sampling.scheme": scheme,
        "server.hosts_clients": hosts_clients,
        "comm.exchange": exchange,
    }
    records = alone_and_together("quadratic", settings, shared_path)
    assert_same_run(records)


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
@pytest.mark.parametrize("hosts_clients", [False, True])
@pytest.mark.parametrize("scheme", ["full", "md", "binomial", "optimal", "power-of-choice"])
def test_whoever_is_free_may_train_a_client(shared_path: Path, scheme: str, hosts_clients: bool, exchange: str) -> None:
    where = {"comm.placement": "dynamic", "server.hosts_clients": hosts_clients, "comm.exchange": exchange}
    records = alone_and_together("quadratic", {**QUADRATIC, **where, "sampling.scheme": scheme}, shared_path)
    assert_same_run(records)


@pytest.mark.parametrize("scheme", ["md", "optimal"])
def test_messages_may_be_in_a_device_s_memory(shared_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the CPU in a GPU's place: MPI is given torch's tensors, for θ as for updates."""
    monkeypatch.setattr("fedmpi.job.worker_loop.device_of_messages", lambda device, settings: device)
    settings = {**QUADRATIC, "data.dim": 301, "sampling.scheme": scheme}
    records = alone_and_together("quadratic", settings, shared_path)
    assert_same_run(records)


@pytest.mark.parametrize("scheme", ["optimal-approx", "clustered-similarity", "fedavg", "poisson"])
def test_quadratic_is_the_same_bits_with_other_schemes(shared_path: Path, scheme: str) -> None:
    settings = {**QUADRATIC, "sampling.scheme": scheme, "sampling.m": 3, "data.spread": 0.3}
    records = alone_and_together("quadratic", settings, shared_path)
    assert_same_run(records)


@pytest.mark.parametrize("exchange", ["per-client", "reduced"])
@pytest.mark.parametrize("hosts_clients", [False, True])
def test_lstm_is_the_same_bits(shared_path: Path, hosts_clients: bool, exchange: str) -> None:
    settings = {**LSTM, "server.hosts_clients": hosts_clients, "comm.exchange": exchange}
    records = alone_and_together("demo", settings, shared_path)
    assert_same_run(records)


@pytest.mark.parametrize("scheme", ["full", "md", "uniform", "binomial"])
def test_quadratic_equals_the_oracle(shared_path: Path, scheme: str) -> None:
    settings = {**QUADRATIC, "run.seed": 5, "sampling.scheme": scheme, "client.mu": 0.3, "server.eta_g": 0.8}
    config = Config.load("quadratic", settings)
    run(config, shared_path / "run.h5")
    with fail_together():
        if COMM.rank == 0:
            record, data = open_record(shared_path / "run.h5"), load_dataset(config)
            minima = [np.asarray(data.client(i).minimum, float) for i in range(11)]
            theta, cohorts = reference.federate(
                np.zeros(20, np.float32),
                lambda theta, t, i: reference.quadratic_update(theta, minima[i], 10, 0.1, 0.3),
                scheme, record.clients["p"], 4, 5, 6, 0.8,
            )  # fmt: skip
            assert_same_cohorts(record, cohorts)
            np.testing.assert_allclose(record.theta, theta, rtol=3e-6, atol=3e-6)


def test_lstm_equals_plain_torch(shared_path: Path) -> None:
    config = Config.load("demo", {**LSTM, "run.seed": 3})
    run(config, shared_path / "run.h5")
    with fail_together():
        if COMM.rank == 0:
            record, data = open_record(shared_path / "run.h5"), load_dataset(config)
            texts = [data.client(i).train.numpy() for i in range(6)]
            start = record.history[1][0]
            theta, cohorts = reference.federate(
                start,
                lambda theta, t, i: reference.lstm_update(theta, texts[i], 3, t, i, 2, 8, 1.5),
                "md", record.clients["p"], 3, 3, 2, 1.0,
            )  # fmt: skip
            moved = np.abs(theta - start).max()
            assert len(start) == 135_700
            assert moved > 1e-3
            assert_same_cohorts(record, cohorts)
            assert np.abs(record.theta - theta).max() < 1e-5 * moved + 1e-6


def assert_same_cohorts(record: Any, cohorts: list[dict[int, float]]) -> None:
    """S_t is the oracle's exactly, and ω to the last bit or two (n p/m may be rounded in another order)."""
    for t, expected in enumerate(cohorts):
        rows = record.cohorts[record.cohorts["t"] == t]
        assert rows["client"].tolist() == list(expected), f"S_t of round {t}"
        np.testing.assert_allclose(rows["omega"], list(expected.values()), rtol=1e-15, err_msg=f"ω of round {t}")
