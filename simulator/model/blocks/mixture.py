"""A mixture of experts: a router, the chosen experts of each row, and shared ones that every row visits.

Devices that share experts gather the rows of all and reduce the results back to their owners; those of a
tensor-parallel group have the same rows, and add up what their experts give as parts of a product. Left out: that
experts which no row of a device chose need not get its rows. Engines that send each row to its experts only (`SORTED`)
share the rows of a tensor-parallel group out over its devices before, and gather the results after. Where experts work
at a width of their own (`expert_hidden`), rows are projected there before they move, and back after they have come home
(arXiv:2502.16927's and Nemotron 3's layout).
"""

from collections.abc import Iterator

from simulator.axes import EP, TP
from simulator.model.backward import COMBINE, DISPATCH
from simulator.model.blocks.base import MLPS, enter, leave
from simulator.model.blocks.dense import matrices
from simulator.model.blocks.dispatched import dispatched
from simulator.model.cut import SENT, SORTED, Cut
from simulator.model.ops import WIDE, Comm, Elementwise, Experts, Linear, Op, Traffic
from simulator.specs.model import Model


@MLPS.add("moe")
def mixture(model: Model, cut: Cut) -> Iterator[Op]:
    """From the normed rows to what the residual stream adds; shared experts run as one dense MLP."""
    assert model.experts is not None and model.top_k is not None
    if cut.dispatch == SENT:
        yield from dispatched(model, cut)
        return
    ffn, hidden = model.expert_ffn or model.ffn, model.hidden
    inner = -(-ffn // cut.experts_cut)
    width = model.expert_hidden or hidden
    yield from enter(cut, "mlp", hidden)
    yield Op("router", Linear(hidden, model.experts, format=WIDE))
    yield Op("choice", Elementwise("choice", Traffic(model.experts, model.experts), element=4.0))
    if model.expert_hidden:
        yield Op("expert down", Linear(hidden, width, keeps=False))
    sent = cut.dispatch == SORTED
    if cut.sharers > 1:
        yield Op("dispatch", Comm(DISPATCH, EP, model.top_k * width) if sent else Comm("all_gather", EP, width))
    yield Op("experts", Experts(model.experts, model.top_k, width, inner, model.gated_ffn, EP, cut.experts_spread))
    if cut.sharers > 1:
        yield Op("combine", Comm(COMBINE, EP, model.top_k * width) if sent else Comm("reduce_scatter", EP, width))
    if model.expert_hidden:
        yield Op("expert up", Linear(width, hidden))
    shared = cut.share(model.shared_ffn) if model.shared_ffn else cut.share(ffn) * model.shared_experts
    if shared:
        first, *rest = matrices(model, shared)
        yield Op(first.name, first.does, after="norm")
        yield from rest
    if sent and cut.over(TP) > 1:
        yield Op("gather mlp", Comm("all_gather", TP, hidden))
    elif not sent:
        yield from leave(cut, "mlp", hidden)
