"""The registry of datasets. A new one: one file in this folder, one line here, and its name in config/tables.py."""

from __future__ import annotations

from fedmpi.config import Config
from fedmpi.data.dataset import Dataset
from fedmpi.plugin import find

DATASETS: dict[str, str] = {
    "quadratic": "fedmpi.data.quadratic:QuadraticClients",
    "synthetic-text": "fedmpi.data.synthetic_text:SyntheticText",
    "shakespeare": "fedmpi.data.corpus:Corpus",
    "gutenberg": "fedmpi.data.corpus:Corpus",
    "leaf": "fedmpi.data.corpus:Corpus",
    "cifar10": "fedmpi.data.images:ImageClients",
}
"""The class of each data.name, made from the settings of [data]; its `samples` says what a model must learn from:
"points", "text" or "images". The classes are imported when used, because they need torch and most commands do not."""


def load_dataset(config: Config) -> Dataset:
    """The configured dataset."""
    dataset: Dataset = find(DATASETS, config.data.name, "data.name")(config.data)
    return dataset


def samples_of(name: str) -> str:
    """What the clients of the dataset `name` hold: "points", "text" or "images"."""
    samples: str = find(DATASETS, name, "data.name").samples
    return samples
