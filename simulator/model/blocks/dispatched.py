"""A mixture of experts whose rows travel: each is sent to the devices of its experts and back.

A device routes its own rows, copies each for every expert that it visits, sends the copies over the expert-parallel
group, sorts what came by expert, and multiplies; devices that cut an expert between them (expert tensor parallelism)
gather these rows first and sum their results after. Results travel back the same way and are summed at home (Megatron's
all-to-all dispatcher). Libraries that send one copy for all experts of a device leave copying and a first sum to the
device that gets it (Megatron's flex dispatcher). Where a capacity gives every expert as many slots, products with masks
may stand for the copies, and nothing is sorted (GShard; MaxText's and DeepSpeed's einsums). Experts of a width of their
own take rows that are projected before they travel. Shared experts are a dense MLP beside it. Left out: the exchange of
counts before the rows, and the loss that balances.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from simulator.axes import EP, ETP
from simulator.model.backward import COMBINE, DISPATCH, GATHER, SCATTER
from simulator.model.blocks.around import activation, clamp
from simulator.model.blocks.base import enter, leave
from simulator.model.blocks.dense import matrices
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, ROW, SHARED_EXPERTS, WIDE, Comm, Elementwise, Linear, Masked, Op, Traffic
from simulator.specs.model import Model

CHOICE, PERMUTE = "choice", "permute"
"""Kinds of its elementwise operations."""


def dispatched(model: Model, cut: Cut) -> Iterator[Op]:
    """From the normed rows, which tensor parallelism cuts, to what the residual stream adds."""
    assert model.experts is not None and model.top_k is not None
    hidden, rows = model.hidden, cut.rows
    shared = model.shared_ffn or model.shared_experts * (model.expert_ffn or model.ffn)
    if shared:
        entered, left = enter(cut, "shared experts", hidden), leave(cut, "shared experts", hidden)
        products = matrices(model, cut.share(shared))
        yield from (replace(op, owner=SHARED_EXPERTS) for op in chain(entered, products, left))
    yield Op("router", Linear(hidden, model.experts, format=WIDE, rows=rows, keeps=not shared))
    scores = Traffic(2.0 * model.experts, model.experts, 3)
    yield Op(CHOICE, Elementwise(CHOICE, scores, ((CHOICE, scores),), model.experts, axis=rows, element=4.0))
    if model.expert_hidden:
        yield Op("expert down", Linear(hidden, model.expert_hidden, rows=rows, keeps=False))
    yield from experts(model, cut)
    if model.expert_hidden:
        yield Op("expert up", Linear(model.expert_hidden, hidden, rows=rows))
    if shared:
        added = Traffic(2.0 * hidden, hidden)
        yield Op("add shared", Elementwise(PERMUTE, added, axis=rows))


def experts(model: Model, cut: Cut) -> Iterator[Op]:
    """Sending rows to the experts, their products, and sending the results back."""
    assert model.experts is not None and model.top_k is not None
    hidden, rows, copies = model.expert_hidden or model.hidden, cut.rows, cut.routing.copies
    local, leaves = model.experts // cut.over(EP) + copies, model.top_k * cut.routing.sent * cut.routing.travels
    sent, busiest, shared = model.top_k * cut.routing.sent, model.top_k * cut.routing.busiest, cut.over(EP)
    inner, met = cut.share(model.expert_ffn or model.ffn, ETP), busiest * cut.over(ETP)
    merged = cut.merged if shared > 1 else None
    sorts = local > 1 and shared * cut.over(ETP) > 1 and merged is None and cut.group is None
    if cut.group is not None:
        masks = _masks(sent, cut.group, cut)
        slots = Masked(hidden, sent, cut.group, rows=rows)
        yield from (masks, Op("permute", slots))
    elif merged is None:
        yield _copies("permute", 1, sent, hidden, cut)
    if shared > 1:
        yield Op("dispatch", Comm(DISPATCH, EP, leaves * hidden, rows))
    if merged is not None:
        yield _copies("permute", merged, busiest, hidden, cut)
    if cut.over(ETP) > 1:
        yield Op("gather experts", Comm(GATHER, ETP, met * hidden, rows))
    if sorts:
        yield _copies("sort", met, met, hidden, cut)
    columns = inner * (2 if model.gated_ffn else 1)
    first = Linear(
        hidden,
        columns,
        COLUMN,
        ETP,
        bias=model.expert_biases,
        spread=EP,
        matrices=local,
        copies=copies,
        visits=met,
        rows=rows,
    )
    yield Op("experts in", first)
    if model.clamped_gate and not cut.fused:
        yield clamp(met * inner, rows)
    yield activation(met * inner, model.gated_ffn, rows)
    yield Op("experts out", replace(first, inputs=inner, outputs=hidden, cut=ROW))
    if sorts:
        yield _copies("sort back", met, met, hidden, cut)
    if cut.over(ETP) > 1:
        yield Op("reduce experts", Comm(SCATTER, ETP, met * hidden, rows))
    if merged is not None:
        yield _copies("unpermute", busiest, merged, hidden, cut)
    if shared > 1:
        yield Op("combine", Comm(COMBINE, EP, leaves * hidden, rows))
    if cut.group is not None:
        yield Op("unpermute", replace(slots, returns=True))
    elif merged is None:
        yield _copies("unpermute", sent, 1, hidden, cut)


def _masks(slots: float, group: int, cut: Cut) -> Op:
    """Writing the mask of zeros and ones, one byte each, and that with the weights of rows, which is kept; backward
    reading the gradient of the latter."""
    size = slots * group
    back = (("masks", Traffic(size, 0.0)),)
    return Op("masks", Elementwise("masks", Traffic(0.0, size, masks_written=size), back, size, axis=cut.rows))


def _copies(name: str, read: float, written: float, hidden: int, cut: Cut) -> Op:
    """Rows copied into another order, or summed; the way back does the opposite."""
    back = ((name, Traffic(written * hidden, read * hidden)),)
    return Op(name, Elementwise(PERMUTE, Traffic(read * hidden, written * hidden), back, axis=cut.rows))
