"""The shape of a model: its sizes, the kinds of its layers, and how they attend."""

from simulator.specs.model.layers import LayerKind, Layers
from simulator.specs.model.linear import STATEFUL, LinearSizes
from simulator.specs.model.mask import BlockMask
from simulator.specs.model.model import Model, PublishedParameters

__all__ = ["STATEFUL", "BlockMask", "LayerKind", "Layers", "LinearSizes", "Model", "PublishedParameters"]
