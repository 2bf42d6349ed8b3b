"""Federated datasets: which client has which samples, and how important each client is.

A new dataset is one class here (see `dataset.Dataset`) and one line in `registry`. Data that has to be fetched or
imported first has a reader in `sources/`, which writes it to the cache as a file of `store`.
"""

from fedmpi.data.dataset import ClientData, Dataset
from fedmpi.data.importance import importances, importances_of
from fedmpi.data.registry import DATASETS, load_dataset, samples_of

__all__ = ["DATASETS", "ClientData", "Dataset", "importances", "importances_of", "load_dataset", "samples_of"]
