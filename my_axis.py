# my_axis.py
from simulator.axes import AXES, Axis
from simulator.model.blocks import MLPS
from simulator.model.blocks.around import activation
from simulator.model.ops import COLUMN, COPY, ROW, Comm, Linear, Op

FP = AXES.add("fp")(Axis("fp", "feature parallelism", "feature-parallel", rank=0))


@MLPS.add("features")
def features(model, cut):
    inner = cut.share(model.ffn, FP)
    if cut.over(FP) > 1:
        yield Op("gather mlp", Comm(COPY, FP, model.hidden))
    yield Op("mlp in", Linear(model.hidden, inner * (2 if model.gated_ffn else 1), COLUMN, FP))
    yield activation(inner, model.gated_ffn)
    yield Op("mlp out", Linear(inner, model.hidden, ROW, FP))
    if cut.over(FP) > 1:
        yield Op("reduce mlp", Comm("all_reduce", FP, model.hidden))
