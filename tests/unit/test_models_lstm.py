"""The LSTM written out for a CPU against nn.LSTM: losses, gradients, evaluation, and when which of them is taken."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from fedmpi import native
from fedmpi.config import Config
from fedmpi.models import make_model
from fedmpi.models.flat import FlatModule
from fedmpi.models.lstm.compiled import CompiledLSTM
from fedmpi.models.lstm.module import CharLSTM

compiled = pytest.mark.skipif(
    not native.native_available(),
    reason="fedmpi.native has no library here: fedmpi was installed without a C compiler, or FEDMPI_NATIVE=0 is set",
)


def batch(B: int, length: int, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(100, (B, length), generator=generator), torch.randint(100, (B,), generator=generator)


def both(
    embedding: int = 8, hidden: int = 100, layers: int = 2, spread: float = 1.0
) -> tuple[FlatModule, CompiledLSTM]:
    """nn.LSTM and ours at the same θ, which is `spread` times what it is drawn as."""
    torch.manual_seed(3)
    module = CharLSTM(embedding, hidden, layers)
    stock = FlatModule(copy.deepcopy(module), torch.device("cpu"))
    loops = native.library()
    assert loops is not None
    ours = CompiledLSTM(module, loops)
    stock.theta.mul_(spread)
    ours.theta.copy_(stock.theta)
    return stock, ours


def assert_same_gradient(stock: FlatModule, ours: CompiledLSTM, data: tuple[torch.Tensor, torch.Tensor]) -> None:
    """Loss and every parameter's gradient, to 1e-5 of its norm."""
    ours.grad.fill_(float("nan"))
    assert float(ours.gradient(data)) == pytest.approx(float(stock.gradient(data)), rel=1e-5)
    named = zip(stock.module.named_parameters(), ours.module.parameters(), strict=True)
    for (name, expected), parameter in named:
        assert expected.grad is not None
        assert parameter.grad is not None
        gap = torch.linalg.vector_norm(parameter.grad.double() - expected.grad.double())
        assert gap <= 1e-5 * torch.linalg.vector_norm(expected.grad.double()), name


@compiled
@pytest.mark.parametrize("B", [1, 3, 64])
@pytest.mark.parametrize("length", [1, 2, 17, 80])
@pytest.mark.parametrize(
    ("embedding", "hidden", "layers"), [(8, 100, 2), (8, 100, 1), (32, 16, 3), (8, 16, 2), (32, 21, 2)]
)
def test_loss_and_gradients_are_those_of_nn_lstm(B: int, length: int, embedding: int, hidden: int, layers: int) -> None:
    stock, ours = both(embedding, hidden, layers)
    assert_same_gradient(stock, ours, batch(B, length))


@compiled
@pytest.mark.parametrize("spread", [0.01, 4.0, 30.0])
def test_they_agree_where_gates_hardly_move_and_where_they_saturate(spread: float) -> None:
    """Large weights push gates to 0 and 1, and rounding grows from step to step: so over three steps, against double
    precision, and no farther from it than 1e-5 or three times as far as nn.LSTM is."""
    stock, ours = both(spread=spread)
    data = batch(16, 3)
    exact = copy.deepcopy(stock.module).double()
    exact.zero_grad()
    expected_loss = nn.functional.cross_entropy(exact(data[0]), data[1])
    expected_loss.backward()
    expected = torch.cat([p.grad.reshape(-1) for p in exact.parameters()])
    assert float(ours.gradient(data)) == pytest.approx(expected_loss.item(), rel=1e-5)
    stock.gradient(data)
    gap, stock_gap = (float(torch.linalg.vector_norm(m.grad.double() - expected)) for m in (ours, stock))
    assert gap <= max(1e-5 * float(torch.linalg.vector_norm(expected)), 3 * stock_gap)


@compiled
def test_memory_is_used_again_without_a_trace() -> None:
    """Batches of other sizes, evaluations and a change of θ in between leave the bits of a gradient as they were."""
    _, ours = both()
    data = batch(9, 80)
    ours.gradient(data)
    first = ours.grad.clone()
    theta = ours.theta.clone()
    ours.theta.add_(0.01)
    ours.gradient(batch(9, 80, seed=5))
    ours.gradient(batch(4, 30))
    ours.evaluate(batch(300, 80))
    ours.theta.copy_(theta)
    ours.evaluate(batch(20, 80))
    ours.gradient(data)
    assert torch.equal(ours.grad, first)


@compiled
@pytest.mark.parametrize("count", [1, 5, 32, 33, 150])
def test_evaluation_is_that_of_nn_lstm(count: int) -> None:
    stock, ours = both(layers=3, hidden=20)
    data = batch(count, 80)
    loss, correct = ours.evaluate(data)
    expected_loss, expected_correct = stock.evaluate(data)
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    # Scores are random, so that two of them are within rounding of each other once in about 10⁵ windows.
    assert correct == expected_correct


@compiled
def test_training_follows_nn_lstm() -> None:
    """Ten SGD steps on ten batches: as close as float32 lets two ways of adding be."""
    stock, ours = both()
    start = stock.theta.clone()
    for k in range(10):
        data = batch(32, 80, seed=k)
        for model in (stock, ours):
            model.gradient(data)
            model.theta.sub_(model.grad, alpha=0.5)
    moved = torch.linalg.vector_norm(stock.theta - start)
    assert torch.linalg.vector_norm(ours.theta - stock.theta) <= 1e-4 * moved


@compiled
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_theta_that_is_not_finite_is_not_hidden(value: float) -> None:
    """Gates are clamped, but not what is no number."""
    _, ours = both()
    ours.theta.fill_(value)
    assert not math.isfinite(float(ours.gradient(batch(4, 10))))
    assert not math.isfinite(ours.evaluate(batch(4, 10))[0])


@compiled
@pytest.mark.parametrize("character", [-1, 100])
def test_a_character_outside_the_vocabulary_is_refused(character: int) -> None:
    _, ours = both()
    x, y = batch(4, 10)
    x[2, 3] = character
    for compute in (ours.gradient, ours.evaluate):
        with pytest.raises(IndexError, match=r"0\.\.99"):
            compute((x, y))


def test_without_the_library_nn_lstm_is_taken_from_the_same_start(monkeypatch: pytest.MonkeyPatch) -> None:
    there = native.native_available()
    model = make_model(Config.load("demo"))
    assert isinstance(model, CompiledLSTM) == there
    monkeypatch.setenv("FEDMPI_NATIVE", "0")
    native.load.cache_clear()
    try:
        stock = make_model(Config.load("demo"))
        assert type(stock) is FlatModule
        assert not native.native_available()
        assert torch.equal(stock.theta, model.theta)
    finally:
        native.load.cache_clear()


@compiled
def test_it_can_be_switched_off_for_a_job() -> None:
    native.use_native(False)
    assert not native.native_available()
    assert native.native_installed()
    native.use_native(True)
    assert native.native_available()


@compiled
def test_a_library_of_another_version_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "VERSION", native.VERSION + 1)
    native.load.cache_clear()
    assert not native.native_available()
    monkeypatch.undo()
    native.load.cache_clear()
    assert native.native_available()


def test_the_order_of_the_parameters_in_theta_is_fixed() -> None:
    """Records and checkpoints depend on it."""
    model = make_model(Config.load("demo"))
    assert isinstance(model, FlatModule)
    layer = ["weight_ih_l{}", "weight_hh_l{}", "bias_ih_l{}", "bias_hh_l{}"]
    expected = [f"lstm.{name.format(k)}" for k in range(2) for name in layer]
    names = [name for name, _ in model.module.named_parameters()]
    assert names == ["embedding.weight", *expected, "output.weight", "output.bias"]
    assert torch.cat([p.detach().reshape(-1) for p in model.module.parameters()]).equal(model.theta)
