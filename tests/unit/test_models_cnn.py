"""The paper's CNN: its size, and dropout that depends on its key alone."""

from __future__ import annotations

import pytest
import torch

from fedmpi.config import Config
from fedmpi.models import make_model
from fedmpi.models.cnn import ImageCNN, KeyedDropout
from fedmpi.models.flat import FlatModule

X, Y = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(0)) * 2 - 1, torch.arange(8)


def model(dropout: float = 0.2) -> FlatModule:
    made = make_model(Config.load("cifar10", {"model.dropout": dropout}))
    assert isinstance(made, FlatModule)
    return made


def test_the_cnn_has_122570_parameters() -> None:
    """3·32·9 + 32, 32·64·9 + 64, 64·64·9 + 64, 1024·64 + 64, 64·10 + 10."""
    assert model().theta.shape == (896 + 18_496 + 36_928 + 65_600 + 650,) == (122_570,)


def test_shapes() -> None:
    assert ImageCNN()(X).shape == (8, 10)


def test_gradients_depend_on_the_seed_of_dropout_alone() -> None:
    gradients = []
    for seed, noise in ((7, 0), (7, 1), (8, 0)):
        made = model()
        torch.manual_seed(noise)
        torch.rand(noise)
        made.reseed(seed)
        made.gradient((X, Y))
        made.gradient((X, Y))
        gradients.append(made.grad.clone())
    assert torch.equal(gradients[0], gradients[1])
    assert not torch.equal(gradients[0], gradients[2])


def test_each_step_drops_others() -> None:
    made = model()
    made.reseed(7)
    first = made.gradient((X, Y))
    assert made.gradient((X, Y)) != first


def test_evaluation_drops_nothing_and_draws_nothing() -> None:
    made = model()
    made.reseed(7)
    assert made.evaluate((X, Y)) == made.evaluate((X, Y)) == model(0.0).evaluate((X, Y))
    loss = made.gradient((X, Y))
    made.reseed(7)
    assert made.gradient((X, Y)) == loss


def test_dropout_keeps_the_mean() -> None:
    """Of 10⁶ ones, a share of 0.8 ± 0.0004 (one deviation) is kept and weighs 1.25."""
    drop = KeyedDropout(0.2)
    drop.generator.manual_seed(0)
    out = drop(torch.ones(1_000_000))
    assert set(out.unique().tolist()) == {0.0, 1.25}
    assert (out > 0).float().mean().item() == pytest.approx(0.8, abs=0.002)
    assert out.mean().item() == pytest.approx(1, abs=0.0025)
