"""Compression: sizes, error bounds, unbiased rounding, hand-made top-k, and feedback that loses nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedmpi.compression import Codec, UploadEncoder, make_codec
from fedmpi.compression.codecs import BLOCK, CHUNK
from fedmpi.config import Config
from fedmpi.rng import stream

CODECS = ("float16", "bfloat16", "int8", "topk")
RNG = np.random.default_rng(11)
# Ends in the middle of a block and of a chunk.
D = BLOCK + 3 * CHUNK + 100


def config(name: str, share: float = 0.01) -> Config:
    return Config().replace({"comm.compression": name, "comm.topk": share})


def codec_of(name: str, d: int, share: float = 0.01) -> Codec:
    codec = make_codec(config(name, share).comm, d)
    assert codec is not None
    return codec


def encoder_of(name: str, d: int, share: float = 0.01) -> UploadEncoder:
    return UploadEncoder(config(name, share).comm, d)


def there_and_back(codec: Codec, delta: Any, seed: int = 0) -> Any:
    delta = np.asarray(delta, np.float32)
    payload, out = np.full(codec.nbytes, 0xAA, np.uint8), np.full(len(delta), 7, np.float32)
    given = delta.copy()
    codec.encode(delta, payload, stream(seed, "rounding"))
    assert (delta.view(np.uint32) == given.view(np.uint32)).all()
    codec.decode(payload, out)
    return out


def units(delta: Any) -> Any:
    """The unit of each entry under int8: the float32 just above max|Δ|/127 of its chunk."""
    chunks = [delta[k : k + CHUNK] for k in range(0, len(delta), CHUNK)]
    above = [np.nextafter(np.abs(chunk).max() / np.float32(127), np.float32(np.inf)) for chunk in chunks]
    return np.repeat(above, CHUNK)[: len(delta)].astype(float)


def normal(scale: float, d: int = D) -> Any:
    """Entries of very different size about a scale."""
    return (scale * RNG.standard_normal(d) * 10.0 ** RNG.uniform(-6, 0, d)).astype(np.float32)


@pytest.mark.parametrize("d", [1, CHUNK, CHUNK + 1, 135_700])
def test_sizes_are_exact(d: int) -> None:
    sizes = {name: codec_of(name, d).nbytes for name in CODECS}
    chunks, k = math.ceil(d / 1024), math.ceil(d / 100)
    assert sizes == {"float16": 2 * d + 4, "bfloat16": 2 * d, "int8": d + 4 * chunks, "topk": 8 * k}
    assert make_codec(config("none").comm, d) is None


@pytest.mark.parametrize(
    ("share", "d", "k"), [(0.07, 100, 7), (0.01, 101, 2), (1e-9, 5, 1), (1.0, 5, 5), (0.29, 100, 29)]
)
def test_the_share_of_topk_is_taken_as_it_is_written(share: float, d: int, k: int) -> None:
    assert codec_of("topk", d, share).nbytes == 8 * k


SCALES = [1e-44, 1e-38, 1e-20, 1e-3, 1.0, 1e6, 1e30, 1e37]


@pytest.mark.parametrize("scale", SCALES)
def test_float16_is_within_rounding(scale: float) -> None:
    delta = normal(scale)
    error = np.abs(there_and_back(codec_of("float16", D), delta).astype(float) - delta)
    size = np.abs(delta.astype(float))
    assert (error <= np.maximum(2.0**-11 * size, 2.0**-39 * size.max())).all()
    assert scale < 1e-40 or error.max() > 0


@pytest.mark.parametrize("scale", SCALES)
def test_bfloat16_is_within_rounding(scale: float) -> None:
    delta = normal(scale)
    error = np.abs(there_and_back(codec_of("bfloat16", D), delta).astype(float) - delta)
    assert (error <= np.maximum(2.0**-8 * np.abs(delta.astype(float)), 2.0**-134)).all()
    assert error.max() > 0


def test_bfloat16_rounds_ties_to_even() -> None:
    """1 + 2⁻⁷ is the next bfloat16 after 1: halves go to the even of the two, more than half goes up."""
    step = 2.0**-7
    given = [1 + step / 2, 1 + 1.5 * step, 1 + step / 2 + 2.0**-23, -1 - step / 2, 1 + step / 2 - 2.0**-23]
    out = there_and_back(codec_of("bfloat16", 5), given)
    assert out.tolist() == [1.0, 1 + 2 * step, 1 + step, -1.0, 1.0]


@pytest.mark.parametrize("scale", SCALES)
def test_int8_is_within_one_unit(scale: float) -> None:
    delta = normal(scale)
    error = np.abs(there_and_back(codec_of("int8", D), delta).astype(float) - delta)
    assert (error <= units(delta) * (1 + 2.0**-16)).all()
    # To nearest, it would be within half a unit. The smallest numbers there are need no rounding.
    assert scale < 1e-40 or (error > 0.6 * units(delta)).any()


def test_int8_is_unbiased() -> None:
    few = np.array([1.0, -1.0, 0.5, -0.3, 0.001, -0.001, 0.7777, 0.0], np.float32)
    delta, codec, seeds = np.tile(few, CHUNK // 8), codec_of("int8", CHUNK), 400
    mean = np.mean([there_and_back(codec, delta, seed) for seed in range(seeds)], axis=0, dtype=float)
    mean, count, unit = mean.reshape(-1, 8).mean(axis=0), seeds * CHUNK // 8, float(units(delta)[0])
    part = np.mod(few.astype(float) / unit, 1.0)
    # Up with probability f, else down, has variance f (1 − f): five standard errors, and float32's own rounding.
    tolerance = unit * (5 * np.sqrt(part * (1 - part) / count) + 2.0**-16)
    assert (np.abs(mean - few) <= tolerance).all()
    assert tolerance.max() < 0.02 * unit


def test_int8_rounds_by_its_stream_alone() -> None:
    delta, codec = normal(1.0), codec_of("int8", D)
    first, other = there_and_back(codec, delta, 1), there_and_back(codec, delta, 2)
    assert (first != other).any()
    assert (there_and_back(codec_of("int8", D), delta, 1) == first).all()


def test_each_chunk_of_int8_has_its_own_unit() -> None:
    delta = np.concatenate([np.full(CHUNK, 1e6), np.full(CHUNK, 1e-6)]).astype(np.float32)
    assert there_and_back(codec_of("int8", 2 * CHUNK), delta) == pytest.approx(delta, rel=0.01)


@pytest.mark.parametrize(
    ("delta", "k", "kept"),
    [
        ([1.0, -5.0, 2.0, 0.5, -3.0], 2, [0, -5.0, 0, 0, -3.0]),
        ([2.0, -2.0, 2.0, 2.0, 3.0], 3, [2.0, -2.0, 0, 0, 3.0]),
        ([-1.0, 1.0, -1.0, 1.0, -1.0], 2, [-1.0, 1.0, 0, 0, 0]),
        ([0.0, 0.0, 0.0, 0.0, 4.0], 3, [0, 0, 0, 0, 4.0]),
        ([1.0, 2.0, 3.0, 4.0, 5.0], 5, [1.0, 2.0, 3.0, 4.0, 5.0]),
    ],
)
def test_topk_keeps_the_largest_and_of_equals_the_first(delta: list[float], k: int, kept: list[float]) -> None:
    assert there_and_back(codec_of("topk", 5, k / 5), delta).tolist() == kept


def test_topk_sends_places_in_order_then_entries() -> None:
    codec, delta = codec_of("topk", 4, 0.5), np.array([1, -8, 2, 4], np.float32)
    payload = np.empty(codec.nbytes, np.uint8)
    codec.encode(delta, payload, RNG)
    assert payload[:8].view(np.uint32).tolist() == [1, 3]
    assert payload[8:].view(np.float32).tolist() == [-8.0, 4.0]


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("d", [1, 5, D])
def test_zero_stays_zero(name: str, d: int) -> None:
    assert not there_and_back(codec_of(name, d), np.zeros(d)).any()


@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("value", [-3.0, 1e-45, 1e-30, 1e38, 2 - 2.0**-23])
def test_a_single_entry_survives(name: str, value: float) -> None:
    """One step of int8 is 1/127 of it; the others are finer."""
    assert there_and_back(codec_of(name, 1), [value])[0] == pytest.approx(np.float32(value), rel=0.01, abs=2.0**-134)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CODECS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, BLOCK + 5, D - 1])
def test_what_is_not_finite_is_not_hidden(name: str, bad: float, place: int) -> None:
    delta = normal(1.0)
    delta[place] = bad
    assert np.isnan(there_and_back(codec_of(name, D), delta)).any()
    assert math.isnan(encoder_of(name, D).encode(delta, 1.0, (0, 0, 0, 0)))


@pytest.mark.parametrize("name", CODECS)
def test_the_encoder_leaves_in_delta_what_the_server_will_decode(name: str) -> None:
    encoder, out = encoder_of(name, D), np.empty(D, np.float32)
    payload = np.empty(encoder.nbytes, np.uint8)
    for t in range(3):
        delta = normal(1.0)
        norm = encoder.encode(delta, math.nan, (0, 0, t, 4), payload)
        codec_of(name, D).decode(payload, out)
        assert (out.view(np.uint32) == delta.view(np.uint32)).all()
        assert norm == pytest.approx(np.linalg.norm(out.astype(float)), rel=1e-12)


def test_without_a_codec_an_update_stays_as_it_is() -> None:
    encoder, delta = encoder_of("none", 3), np.array([1, 2, 3], np.float32)
    assert encoder.encode(delta, 3.5, (0, 0, 0, 0)) == 3.5
    assert delta.tolist() == [1, 2, 3]
    assert encoder.codec is None
    assert encoder.nbytes == 12
    assert not encoder.keeps_residuals


def test_rounding_is_keyed_by_seed_round_and_client() -> None:
    encoder, delta = encoder_of("int8", D), normal(1.0)

    def upload(run: int, seed: int, t: int, i: int) -> bytes:
        payload = np.empty(encoder.nbytes, np.uint8)
        encoder.encode(delta.copy(), math.nan, (run, seed, t, i), payload)
        return payload.tobytes()

    assert upload(0, 1, 2, 3) == upload(0, 1, 2, 3) == upload(5, 1, 2, 3)
    assert len({upload(0, 1, 2, 3), upload(0, 2, 2, 3), upload(0, 1, 3, 3), upload(0, 1, 2, 4)}) == 4


def test_feedback_by_hand() -> None:
    encoder = encoder_of("topk", 2, 0.5)
    sent: list[list[float]] = []
    for delta in ([4.0, 3.0], [1.0, 1.0], [1.0, 0.0], [0.0, 0.0]):
        v = np.array(delta, np.float32)
        encoder.encode(v, math.nan, (0, 0, len(sent), 0))
        sent.append(v.tolist())
    assert sent == [[4.0, 0.0], [0.0, 4.0], [2.0, 0.0], [0.0, 0.0]]


def test_residuals_of_two_runs_are_apart() -> None:
    encoder = encoder_of("topk", 2, 0.5)
    for run, delta in ((0, [4, 3]), (1, [5, 1])):
        encoder.encode(np.array(delta, np.float32), math.nan, (run, 0, 0, 7))
    assert encoder.residuals(0)[7].tolist() == [0, 3]
    assert encoder.residuals(1)[7].tolist() == [0, 1]


def test_feedback_telescopes_for_each_client() -> None:
    """Σ decoded = Σ Δ − e. With whole numbers float32 makes no rounding of its own, so this is exact."""
    d, clients = 500, (3, 8)
    encoder = encoder_of("topk", d, 0.05)
    given, decoded = {i: np.zeros(d) for i in clients}, {i: np.zeros(d) for i in clients}
    for t in range(30):
        for i in clients:
            delta = RNG.integers(-1000, 1000, d).astype(np.float32)
            given[i] += delta
            encoder.encode(delta, math.nan, (0, 0, t, i))
            assert np.count_nonzero(delta) <= 25
            decoded[i] += delta
    for i in clients:
        assert encoder.residuals(0)[i].any()
        assert (decoded[i] == given[i] - encoder.residuals(0)[i]).all()


def test_an_update_that_is_not_finite_leaves_the_residual_as_it_was() -> None:
    encoder = encoder_of("topk", 2, 0.5)
    encoder.encode(np.array([4, 3], np.float32), math.nan, (0, 0, 0, 0))
    assert math.isnan(encoder.encode(np.array([math.inf, 0], np.float32), 1.0, (0, 0, 1, 0)))
    again = np.array([1, 0], np.float32)
    encoder.encode(again, math.nan, (0, 0, 2, 0))
    assert again.tolist() == [0.0, 3.0]


def test_an_encoder_with_restored_residuals_continues_as_if_unbroken() -> None:
    d = 40
    unbroken, resumed = (encoder_of("topk", d, 0.1) for _ in range(2))
    for t, i in enumerate((5, 2, 5)):
        unbroken.encode(normal(1.0, d), math.nan, (0, 0, t, i))
    resumed.residuals(0).update({i: residual.copy() for i, residual in unbroken.residuals(0).items()})
    assert sorted(resumed.residuals(0)) == [2, 5]
    for i in (2, 5, 7):
        first = normal(1.0, d)
        second = first.copy()
        unbroken.encode(first, math.nan, (0, 0, 9, i))
        resumed.encode(second, math.nan, (0, 0, 9, i))
        assert (first == second).all()


def test_only_a_codec_with_feedback_keeps_residuals() -> None:
    encoder = encoder_of("int8", 3)
    encoder.encode(np.array([1, 2, 3], np.float32), math.nan, (0, 0, 0, 0))
    assert encoder.residuals(0) == {}
    assert [name for name in CODECS if encoder_of(name, 3).keeps_residuals] == ["topk"]
