"""Launches of layers with experts, and exchanges with experts beside other microbatches."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from simulator.cost.device import compile_device
from simulator.cost.work import Stream
from simulator.program.piece import HOST, Takes
from simulator.specs.base import Figure
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import RouterLoad
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.overlap.launches import sends_rows
from simulator.training.overlap.partners import exchanges, stretches
from simulator.training.pass_costs import LayerPasses, PassCosts
from simulator.training.step import Kernel
from simulator.units import to_ticks
from tests import jobs

EXCHANGE = 1_000_000
TAKES = Takes(0.2, 0.25)


@lru_cache
def job(overhead: float = 0.0, **training: Any) -> Job:
    """Two experts on each of four devices."""
    figure = Figure[float](value=overhead, status="estimate", source="test")
    software = jobs.stack("megatron-core", layer_overhead=figure)
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512)
    return build_job(jobs.scenario(software=software, shape=shape, devices=4, dp=4, ep=4, training=training))


def passes(found: Job, exchange: int = EXCHANGE, paired: bool = False) -> LayerPasses:
    device = compile_device(jobs.cluster().node.accelerator)
    costs = PassCosts(found, device, lambda comm: exchange if comm.axis == "ep" else 0, lambda comm, bulk: TAKES)
    return costs.layers(paired).of[found.kinds[0]]


def lasts(found: Job, exchange: int = EXCHANGE, one: str = "forward", paired: bool = False) -> int:
    return int(getattr(passes(found, exchange, paired), one).lasts(np.ones(1))[0])


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


def test_biases_of_experts_are_added_in_fp32_expert_by_expert() -> None:
    """Forward b p (4 bytes written), x + b p (2 + 4, 4), joined (4, 4), cast (4, 2); backward cast (2, 4) and back (4,
    2), times p (4, 4) and summed (4), times b (4, 4) and summed (4), joined (2, 2)."""
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512)
    found = [
        {step.name: step.work for step in steps if isinstance(step, Kernel)}
        for biases in (False, True)
        for own in (build_job(biased(shape, biases)),)
        for steps in (operators.layer_forward(own, own.kinds[0]), operators.layer_backward(own, own.kinds[0]))
    ]
    assert [("expert bias" in kernels) for kernels in found] == [False, False, True, True]
    elements = 1024 * 2 * 1024
    assert found[2]["expert bias"] == Stream(14 * elements, 14 * elements, kernels=2 * 2 + 2)
    assert found[3]["expert bias"] == Stream(24 * elements, 16 * elements, kernels=6 * 2 + 2)


def test_what_experts_multiply_by_their_gate_is_clamped_in_passes_of_their_own() -> None:
    """Bytes of an element of the expert's width in 16 bits. Forward two clamps (2 read, 2 written each) and a join (4,
    4). Backward, of the gate one comparison (2, a mask of 1) and its choice (1 + 2, 2), of the other factor two (2, 1
    each), their join (1 + 1, 1) and its choice (1 + 2, 2), and both joined (4, 4)."""
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512, gated_ffn=True, clamped_gate=True)
    own = build_job(jobs.scenario(software=jobs.stack("megatron-core"), shape=shape, devices=4, dp=4, ep=4))
    elements = 1024 * 2 * 512
    passes = (operators.layer_forward, operators.layer_backward)
    there, back = (
        next(step.work for step in one(own, own.kinds[0]) if isinstance(step, Kernel) and step.name == "clamp")
        for one in passes
    )
    assert there == Stream(8 * elements, 8 * elements, kernels=3)
    assert back == Stream(18 * elements, 12 * elements, kernels=7)
    fused = replace(own, stack=own.stack.model_copy(update={"grouped": True}))
    assert all(step.name != "clamp" for one in passes for step in one(fused, fused.kinds[0]))


def test_rows_of_experts_are_filled_up_to_what_narrow_products_take() -> None:
    """Each of 1,024 rows visits two experts; before the first product and after the last they are copied, 2 bytes an
    element in and out, in both passes; not in 16 bits, nor where a library or a capacity fills them up."""
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512)
    moved = Stream(2.0 * 1024 * 2 * 1024, 2.0 * 1024 * 2 * 1024)
    for training, filled in (
        ({"precision": "fp8"}, True),
        ({"precision": "bf16"}, False),
        ({"precision": "fp8", "dispatcher": "deepep"}, False),
        ({"precision": "fp8", "routing": {"capacity": 1, "padded": True}}, False),
    ):
        stack = jobs.stack("megatron-core")
        own = build_job(
            jobs.scenario(on="generic-h100", software=stack, shape=shape, devices=4, dp=4, ep=4, training=training)
        )
        for one in (operators.layer_forward, operators.layer_backward):
            steps = [step for step in one(own, own.kinds[0]) if isinstance(step, Kernel)]
            assert [s.work for s in steps if s.name in ("fill rows", "empty rows")] == [moved] * 2 * filled


def test_scales_of_tensors_as_they_are_are_kernels_of_their_own() -> None:
    """Largest value, scale and cast of the rows of both experts of a device; behind a norm, which knows the largest
    value, scale and cast. The host launches the first two in one go."""
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512)
    for precision, (normed, rows) in {"fp8": (1, 2), "fp8-current": (2, 6)}.items():
        stack = jobs.stack("megatron-core")
        given = jobs.scenario(
            on="generic-h100",
            software=stack,
            shape=shape,
            devices=4,
            dp=4,
            ep=4,
            training={"precision": precision},
        )
        own = build_job(given)
        steps = operators.layer_forward(own, own.kinds[0])
        kernels = [step for step in steps if isinstance(step, Kernel)]
        casts = {k.name: k for k in kernels if isinstance(k.work, Stream) and "cast" in k.name}
        assert all(k.calls == 1 for k in casts.values())
        found = {name: (k.work.kernels, k.launches) for name, k in casts.items() if isinstance(k.work, Stream)}
        assert found["cast experts in"] == found["cast experts out"] == (rows, 2 * min(rows // 2, 2))
        assert found.get("cast attention in", (normed, normed)) == (normed, normed)


def test_biases_of_experts_are_parameters_of_their_device() -> None:
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512, biases=False)
    plain, more = (build_job(biased(shape, biases)) for biases in (False, True))
    added = operators.layer_parameters(more, more.kinds[0]) - operators.layer_parameters(plain, plain.kinds[0])
    assert added == 2 * (512 + 1024)
    assert operators.layer_parameters(more, more.kinds[0], more.replicas[-1]) > 0


def biased(shape: Model, biases: bool) -> Scenario:
    model = shape.model_copy(update={"expert_biases": biases})
    return jobs.scenario(software=jobs.stack("megatron-core"), shape=model, devices=4, dp=4, ep=4)


def test_exchanges_of_a_pair_of_passes_are_hidden_in_stretches_that_last_longer() -> None:
    own = job(overlap_experts=True)
    for one in ("forward", "backward"):
        serial, alone = lasts(job(), one=one), lasts(job(), 0, one)
        assert serial == alone + 2 * EXCHANGE
        assert lasts(own, one=one) == serial
        assert alone <= lasts(own, one=one, paired=True) <= alone + 2 * EXCHANGE * max(TAKES) + 4
        long = 10 * alone
        rest = 2 * long + kernels(own, one, 2 if one == "forward" else 0)
        assert lasts(own, long, one, paired=True) == pytest.approx(rest, abs=4)
        assert 0 < getattr(passes(own, long, paired=True), one).content.exposed < 2 * long - alone / 2


def kernels(own: Job, one: str, which: int) -> int:
    """Ticks of the kernels of a stretch that nothing runs beside: of what follows combine, or its gradient leads to."""
    steps = {"forward": operators.layer_forward, "backward": operators.layer_backward}[one](own, own.kinds[0])
    listed = list(steps)
    assert len(exchanges(listed)) == 2
    costs = PassCosts(own, compile_device(jobs.cluster().node.accelerator), lambda comm: 0)
    bare = stretches(listed, exchanges(listed), backward=one == "backward")[which]
    assert bare.beside == ()
    return int(costs.piece(bare.steps).lasts(np.ones(1))[0])


def test_what_is_computed_again_waits_for_its_own_exchanges() -> None:
    own = job(overlap_experts=True, recompute="full")
    again, serial = (passes(own, exchange, paired=True).again for exchange in (EXCHANGE, 0))
    assert again is not None and serial is not None
    assert again.ticks == serial.ticks + 2 * EXCHANGE


def test_without_other_devices_there_is_nothing_to_overlap() -> None:
    shape = jobs.model(experts=8, top_k=2)
    alone = jobs.scenario(shape=shape, devices=4, dp=4, training={"overlap_experts": True})
    assert not build_job(alone).overlap_experts


def test_experts_are_launched_when_their_rows_are_counted() -> None:
    """With attention and router captured their kernels run before the host launches the rest, not beside it; where
    slots are of a known number, or one graph holds all, both go on at once. A host that is slow throughout launches
    one layer after the other in any case."""
    found = job(cuda_graphs=GRAPHS)
    steps = list(operators.layer_forward(found, found.kinds[0]))
    costs, first = costs_of(found), sends_rows(steps)
    before, after = (costs.piece(half).ticks for half in (steps[:first], steps[first:]))
    call = before / 5  # of ten that a dense layer takes
    own = job(10 * call * 1e-12, cuda_graphs=GRAPHS)
    behind = to_ticks(costs_of(own).host(own.kinds[0])) - 2 * call  # two graphs
    assert behind > after
    assert before + behind <= lasts(own) <= before + behind + after
    known = job(10 * call * 1e-12, cuda_graphs=GRAPHS, routing=RouterLoad(capacity=1.0, padded=True))
    assert lasts(known) < lasts(own)
    assert lasts(job(1.0, cuda_graphs=GRAPHS)) == pytest.approx(waits(*GRAPHS) * 1e12)


GRAPHS = ("attention", "router")


def costs_of(own: Job) -> PassCosts:
    return PassCosts(own, compile_device(jobs.cluster().node.accelerator), lambda comm: EXCHANGE)


def launched_back(**training: Any) -> float:
    """Host's seconds of a layer's backward pass where a dense one takes a second."""
    layer = passes(job(1.0, **training)).backward
    return sum(part.content.host for part in layer.parts if part.lane == HOST) * 1e-12


def test_backward_passes_launch_their_own_kernels() -> None:
    """A dense layer: two residuals, four products twice and their biases, the core, an activation, and two norms
    of two kernels."""
    dense = 2 + 4 * 3 + 1 + 1 + 2 * 2
    found = job(1.0)
    layer = [step for step in operators.layer_backward(found, found.kinds[0]) if isinstance(step, Kernel)]
    own = sum(k.work.kernels if isinstance(k.work, Stream) and k.launches == 1 else k.launches for k in layer)
    assert launched_back() == pytest.approx(own / dense)
    assert launched_back(cuda_graphs=("all",)) == pytest.approx(1 / dense)


def test_products_after_the_first_of_a_call_take_the_host_less() -> None:
    """Both experts of a device: two calls with two products each forward, four backward."""

    def hosts(each: float | None) -> list[float]:
        found = job(1.0)
        figure = None if each is None else Figure[float](value=each, status="estimate", source="test")
        own = passes(replace(found, stack=found.stack.model_copy(update={"product_overhead": figure})))
        return [sum(p.content.host for p in one.parts if p.lane == HOST) * 1e-12 for one in (own.forward, own.backward)]

    alike, free, paid = hosts(None), hosts(0.0), hosts(0.01)
    assert all(few < many for few, many in zip(free, alike, strict=True))
    assert [round((p - f) / 0.01) for p, f in zip(paid, free, strict=True)] == [2, 4]


def test_layers_with_experts_have_an_overhead_of_their_own() -> None:
    found = job(1.0)
    figure = Figure[float](value=2.0, status="estimate", source="test")
    own = replace(found, stack=found.stack.model_copy(update={"experts_overhead": figure}))
    device = compile_device(jobs.cluster().node.accelerator)
    given, other = (PassCosts(one, device, lambda comm: 0) for one in (found, own))
    (kind,) = found.kinds
    assert other.host(kind) == 2 * given.host(kind)
    assert other.host(kind._replace(mlp="dense")) == given.host(kind._replace(mlp="dense")) == 1.0


def test_what_is_computed_again_is_launched_again_unless_it_is_captured() -> None:
    again = {"recompute": "selective", "recompute_modules": ("norm", "activation")}
    dense = 20
    assert launched_back(**again) == pytest.approx(launched_back() + 3 / dense)  # two norms, one activation
    captured = launched_back(**again, cuda_graphs=("attention", "router"))
    assert captured == pytest.approx(launched_back(cuda_graphs=("attention", "router")) + 1 / dense)
    assert waits() == pytest.approx(sum(p.content.host for p in passes(job(1.0, **again)).forward.parts) * 1e-12)
