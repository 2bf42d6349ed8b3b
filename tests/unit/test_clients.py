"""Local work and the data it runs on."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedmpi.client import LocalClients
from fedmpi.config import Config
from fedmpi.data import importances, load_dataset
from fedmpi.data.text import VOCABULARY, TextClient, batches, split, windows
from fedmpi.errors import ConfigError
from fedmpi.models import make_model
from fedmpi.rng import stream

TINY = {"data.n": 5, "data.samples": 30, "client.K": 2, "client.B": 8}


def test_the_lstm_has_the_papers_135700_parameters() -> None:
    assert make_model(Config.load("demo")).theta.shape == (135_700,)


def test_parameters_and_gradients_are_views_of_the_flat_vectors() -> None:
    model = make_model(Config.load("demo"))
    weight = model.module.output.weight
    model.theta.fill_(0.25)
    assert (weight == 0.25).all()
    model.gradient((torch.zeros((4, 80), dtype=torch.long), torch.arange(4)))
    assert weight.grad.abs().sum() > 0
    assert torch.cat([p.grad.reshape(-1) for p in model.module.parameters()]).equal(model.grad)


def test_gradients_do_not_pile_up() -> None:
    model = make_model(Config.load("demo"))
    batch = (torch.zeros((4, 80), dtype=torch.long), torch.arange(4))
    model.gradient(batch)
    once = model.grad.clone()
    model.gradient(batch)
    assert torch.equal(model.grad, once)


def test_theta_0_is_keyed_by_the_seed() -> None:
    first, again = (make_model(Config.load("demo", {"run.seed": 4})).theta for _ in range(2))
    other = make_model(Config.load("demo", {"run.seed": 5})).theta
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_model_refuses_data_it_cannot_read() -> None:
    with pytest.raises(ConfigError, match=r"model\.name = 'lstm': cannot learn from data\.name = 'quadratic'"):
        make_model(Config.load("quadratic", {"model.name": "lstm"}))


def test_a_device_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"client\.device = 'nowhere'"):
        make_model(Config.load("quadratic", {"client.device": "nowhere"}))


def test_quadratic_work_has_its_closed_form() -> None:
    """Δ_i = φ(θ_i* − θᵗ), φ = 1 − (1−η_l)^K."""
    config = Config.load("quadratic", {"client.K": 7, "client.eta_l": 0.2})
    data = load_dataset(config)
    host, delta = LocalClients(config, data), np.zeros(20, np.float32)
    theta = np.arange(20, dtype=np.float32) / 10
    host.receive(theta)
    training = host.train(3, 0, delta)
    expected = (1 - 0.8**7) * (data.client(3).minimum.numpy() - theta)
    assert delta == pytest.approx(expected, abs=1e-5)
    assert training.delta_norm == pytest.approx(np.linalg.norm(expected), rel=1e-5)


def test_fedprox_pulls_towards_theta_t_and_decay_shrinks_the_step() -> None:
    norms = []
    for settings in ({}, {"client.mu": 5.0}, {"client.decay": 0.5}):
        config = Config.load("quadratic", settings)
        host, delta = LocalClients(config, load_dataset(config)), np.zeros(20, np.float32)
        host.receive(np.zeros(20, np.float32))
        norms.append(host.train(0, 3, delta).delta_norm)
    plain, proximal, decayed = norms
    eta = 0.1
    minimum = plain / (1 - 0.9**10)
    assert proximal == pytest.approx(minimum * (1 - (1 - 6 * eta) ** 10) / 6, rel=1e-5)
    assert decayed == pytest.approx(minimum * (1 - (1 - eta / 8) ** 10), rel=1e-5)


def test_a_clients_work_does_not_depend_on_who_trained_before() -> None:
    config = Config.load("demo", TINY)
    results = []
    for before in ([], [0, 1, 2]):
        host, delta = LocalClients(config, load_dataset(config)), np.zeros(135_700, np.float32)
        host.receive(make_model(config).theta.numpy().copy())
        for i in before:
            host.train(i, 0, np.zeros(135_700, np.float32))
        host.train(4, 0, delta)
        results.append(delta)
    assert (results[0] == results[1]).all()


def test_batches_are_distinct_windows_of_the_clients_own_text() -> None:
    client = TextClient(np.arange(99, dtype=np.uint8), np.zeros(0, np.uint8))
    x, y = client.batch(8, stream(0, "batches"))
    starts = x[:, 0]
    assert len(set(starts.tolist())) == 8
    assert torch.equal(x, starts[:, None] + torch.arange(80))
    assert torch.equal(y, starts + 80)


def test_a_client_with_fewer_samples_than_B_uses_them_all() -> None:
    client = TextClient(np.arange(85, dtype=np.uint8), np.zeros(0, np.uint8))
    x, _ = client.batch(64, stream(0, "batches"))
    assert x[:, 0].tolist() == [0, 1, 2, 3, 4]


def test_an_evaluation_takes_every_window_or_evenly_spaced_ones() -> None:
    text = torch.arange(100, dtype=torch.uint8)
    assert torch.cat([batch[0][:, 0] for _, batch in batches(text, 0)]).tolist() == list(range(20))
    assert torch.cat([batch[0][:, 0] for _, batch in batches(text, 5)]).tolist() == [0, 4, 8, 12, 16]
    assert list(batches(torch.zeros(10), 5)) == []


def test_test_windows_do_not_overlap_training_text() -> None:
    text = np.arange(280) % 100
    train, test = split(text.astype(np.uint8))
    assert windows(torch.from_numpy(train)) == 160
    assert windows(torch.from_numpy(test)) == 0
    train, test = split(np.zeros(1080, np.uint8))
    assert (windows(torch.from_numpy(train)), windows(torch.from_numpy(test))) == (800, 120)
    assert len(train) + len(test) == 1080


def test_synthetic_text_is_lazy_seeded_and_of_the_promised_size() -> None:
    config = Config.load("demo", {"data.n": 1_000_000, "data.samples": 50, "data.spread": 0.5})
    data = load_dataset(config)
    client, again = data.client(999_999), load_dataset(config).client(999_999)
    assert windows(client.train) == data.n_samples[999_999]
    assert torch.equal(client.train, again.train)
    assert client.train.max() < VOCABULARY
    assert not torch.equal(client.train[:50], data.client(1).train[:50])
    assert data.n_samples.mean() == pytest.approx(50, rel=0.01)


def test_equal_sizes_at_spread_zero() -> None:
    assert set(load_dataset(Config.load("demo", {"data.spread": 0.0})).n_samples) == {400}


def test_importances() -> None:
    sizes = np.array([1, 3])
    settings = {"data.n": 2}
    assert importances(Config.load("demo", settings), sizes).tolist() == [0.25, 0.75]
    assert importances(Config.load("demo", {**settings, "sampling.importance": "uniform"}), sizes).tolist() == [
        0.5,
        0.5,
    ]
    given = {**settings, "sampling.importance": [0.1, 0.9]}
    assert importances(Config.load("demo", given), sizes).tolist() == [0.1, 0.9]
    with pytest.raises(ConfigError, match=r"holds 2 numbers, but data\.n = 3"):
        importances(Config.load("demo", given), np.ones(3, np.int64))
