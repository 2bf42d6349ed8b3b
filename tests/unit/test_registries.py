"""Every part that a setting can name is in a registry, and the other way round."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fedmpi.comm.exchanges import EXCHANGES
from fedmpi.compression import CODECS
from fedmpi.config import Config, declared_keys
from fedmpi.data import DATASETS, load_dataset, samples_of
from fedmpi.data.sources.cache import SOURCES
from fedmpi.errors import ConfigError
from fedmpi.models import MODELS, make_model


@pytest.mark.parametrize(
    ("key", "registry"),
    [
        ("data.name", DATASETS),
        ("model.name", MODELS),
        ("comm.compression", ["none", *CODECS]),
        ("comm.exchange", EXCHANGES),
    ],
)
def test_the_choices_of_a_setting_are_the_names_of_its_registry(key: str, registry: Iterable[str]) -> None:
    assert dict(declared_keys())[key].metadata["choices"] == tuple(registry)


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_has_a_model_that_learns_from_its_samples(name: str) -> None:
    assert samples_of(name) in {model.samples for model in MODELS.values()}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("data", DATASETS)
def test_a_model_is_made_for_its_own_samples_only(name: str, data: str) -> None:
    config = Config.load("demo", {"model.name": name, "data.name": data})
    if MODELS[name].samples == samples_of(data):
        assert make_model(config).theta.dim() == 1
    else:
        with pytest.raises(ConfigError, match=rf"model\.name = '{name}': cannot learn from data\.name = '{data}'"):
            make_model(config)


@pytest.mark.parametrize("name", [name for name in DATASETS if name not in SOURCES])
def test_generated_data_is_not_partitioned(name: str) -> None:
    dataset = load_dataset(Config.load("demo", {"data.name": name, "data.n": 3}))
    assert dataset.n_samples.shape == (3,)
    assert dataset.name(0) != dataset.name(1)
    with pytest.raises(ConfigError, match=r"data\.partition = 'iid': .* is generated client by client"):
        load_dataset(Config.load("demo", {"data.name": name, "data.partition": "iid"}))
