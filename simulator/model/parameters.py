"""Parameters of a whole model: all of them, and those that one token meets."""

from collections import Counter
from collections.abc import Iterable

from simulator.model.blocks import ends
from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.ops import Experts, Op
from simulator.model.tensors import tensors
from simulator.specs.model import Model


def total_parameters(model: Model) -> float:
    """Weights, biases and norms of all layers and both ends; a tied head is counted once, and modules for multi-token
    prediction are not."""
    tied = model.vocabulary * model.hidden if model.tied_embeddings else 0
    both = _count(ends.embedding(model, Cut())) + _count(ends.head(model, Cut()))
    return _layers(model, active=False) + both - tied


def predicting_parameters(model: Model) -> float:
    """Parameters that modules for multi-token prediction have of their own: neither embedding nor head."""
    modules = sum(_count(layer(model, Cut(), kind)) for kind in model.predicting)
    return modules + _count(ends.with_loss(model, Cut())) - _count(ends.head(model, Cut()))


def active_parameters(model: Model) -> float:
    """Those by which a token is multiplied: of experts the chosen ones, the output head, and no input embedding."""
    return _layers(model, active=True) + _count(ends.head(model, Cut()))


def _layers(model: Model, active: bool) -> float:
    kinds = Counter(model.encoding + model.kinds)
    encoder = _count(ends.encoder_ends(model, Cut())) if model.encoding else 0.0
    return encoder + sum(number * _count(layer(model, Cut(), kind), active) for kind, number in kinds.items())


def _count(ops: Iterable[Op], active: bool = False) -> float:
    """Parameters of operations; of experts only the share that a row visits where `active`."""
    return sum(
        one.elements * (op.does.top_k / op.does.experts if active and isinstance(op.does, Experts) else 1.0)
        for op in ops
        for one in tensors([op])
    )
