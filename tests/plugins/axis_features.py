"""A parallel axis as a plug-in: the inner width of MLPs is cut over an axis of its own, beside tensor parallelism.

All ranks along it work on the same rows, so that each half of the products is summed over it and nothing else is.
"""

from collections.abc import Iterator

from simulator.axes import AXES, Axis
from simulator.model.blocks import MLPS
from simulator.model.blocks.around import activation
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, COPY, ROW, Comm, Linear, Op
from simulator.specs.model import Model

FP = AXES.add("fp")(Axis("fp", "feature parallelism", "feature-parallel", 0))


@MLPS.add("features")
def features(model: Model, cut: Cut) -> Iterator[Op]:
    """A dense MLP whose inner width lies on the devices along the axis."""
    inner, spread = cut.share(model.ffn, FP), cut.over(FP) > 1
    if spread:
        yield Op("gather mlp", Comm(COPY, FP, model.hidden))
    yield Op("mlp in", Linear(model.hidden, inner * (2 if model.gated_ffn else 1), COLUMN, FP, bias=model.biases))
    yield activation(inner, model.gated_ffn)
    yield Op("mlp out", Linear(inner, model.hidden, ROW, FP, bias=model.biases))
    if spread:
        yield Op("reduce mlp", Comm("all_reduce", FP, model.hidden))
