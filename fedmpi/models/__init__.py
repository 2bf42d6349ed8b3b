"""The models that clients train. θ is one flat float32 vector, whatever the model.

A new model is one file here and one line in `registry`: a function that returns a TrainableModel, decorated with what
it learns from. For a classifier that is a torch module, `flat.FlatModule` does all of that.
"""

from fedmpi.models.model import ModelFactory, TrainableModel
from fedmpi.models.registry import MODELS, make_model

__all__ = ["MODELS", "ModelFactory", "TrainableModel", "make_model"]
