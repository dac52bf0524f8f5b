"""Where sequences are cut in slices: at equally many tokens, or where forward passes are equally many FLOPs."""

from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.tensors import cores, multiplied
from simulator.program.schedule import Schedule
from simulator.program.slices import balanced_lengths
from simulator.specs.model import Model
from simulator.specs.training import Training
from simulator.training.flops import attended_flops

TILE = 128
"""Tokens in multiples of which balanced slices are cut where the sequence is one, as kernels of attention are."""


def slice_lengths(training: Training, model: Model, schedule: Schedule) -> tuple[int, ...]:
    """Tokens of each slice of a sequence; empty where it is not cut."""
    many, length, tp = schedule.slices, training.sequence_length, training.parallel.tp
    if many == 1:
        return ()
    if training.slice_cut == "even":
        return (length // many,) * many
    unit = tp * (TILE if length % (TILE * tp) == 0 and length >= 4 * many * TILE * tp else 1)
    return balanced_lengths(length, many, causal_share(model, length), unit)


def causal_share(model: Model, length: int) -> float:
    """Share of a forward pass through the layers that goes with pairs of tokens, of which a causal mask leaves half."""
    layers = [list(layer(model, Cut(), kind)) for kind in model.kinds]
    products = sum(2.0 * length * multiplied(ops) for ops in layers)
    pairs = sum(attended_flops(core, length) / 2 for ops in layers for core in cores(ops))
    return pairs / (pairs + products)
