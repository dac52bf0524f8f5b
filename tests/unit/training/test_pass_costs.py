"""Launches of layers with experts, and exchanges with experts beside other microbatches."""

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from simulator.cost.device import compile_device
from simulator.program.piece import HOST
from simulator.specs.base import Figure
from simulator.training.job import Job, build_job
from simulator.training.pass_costs import LayerPasses, PassCosts
from tests import jobs

EXCHANGE = 1_000_000


@lru_cache
def job(overhead: float = 0.0, **training: Any) -> Job:
    """Two experts on each of four devices."""
    figure = Figure[float](value=overhead, status="estimate", source="test")
    software = jobs.stack("megatron-core", layer_overhead=figure)
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512)
    return build_job(jobs.scenario(software=software, shape=shape, devices=4, dp=4, ep=4, training=training))


def passes(found: Job, exchange: int = EXCHANGE) -> LayerPasses:
    device = compile_device(jobs.cluster().node.accelerator)
    costs = PassCosts(found, device, lambda comm: exchange if comm.axis == "ep" else 0)
    return costs.layers().of[found.kinds[0]]


def lasts(found: Job, exchange: int = EXCHANGE) -> int:
    return int(passes(found, exchange).forward.lasts(np.ones(1))[0])


def waits(*graphs: str) -> float:
    """Host's seconds of a layer's forward pass where a dense one takes a second."""
    layer = passes(job(1.0, cuda_graphs=graphs)).forward
    return sum(part.content.host for part in layer.parts if part.lane == HOST) * 1e-12


def test_a_graph_is_one_launch() -> None:
    """Attention has a norm, two products, its core and a residual; the router a norm, a product and three passes.

    A dense layer launches those five of attention and five more.
    """
    experts = waits() - 10 / 10
    assert waits("attention") == pytest.approx(waits() - (5 - 1) / 10)
    assert waits("attention", "router") == pytest.approx(experts + 2 / 10)
    assert waits("all") == pytest.approx(1 / 10)


def test_exchanges_beside_another_microbatch_are_hidden_where_the_layer_computes_longer() -> None:
    serial, alone = lasts(job()), lasts(job(), 0)
    assert serial == alone + 2 * EXCHANGE
    hidden = job(overlap_experts=True)
    quality = hidden.stack.overlap_quality.value
    assert alone <= lasts(hidden) <= alone + 2 * EXCHANGE * (1 - quality) + 2
    long = 10 * alone
    assert lasts(hidden, long) == 2 * long
    assert 0 < passes(hidden, long).forward.content.exposed < 2 * long - alone


def test_without_other_devices_there_is_nothing_to_overlap() -> None:
    shape = jobs.model(experts=8, top_k=2)
    alone = jobs.scenario(shape=shape, devices=4, dp=4, training={"overlap_experts": True})
    assert not build_job(alone).overlap_experts
