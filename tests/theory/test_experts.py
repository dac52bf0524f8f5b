"""Mixtures of experts in training against arithmetic: bytes, parameters, groups, work."""

from dataclasses import replace
from typing import Any

import pytest

from simulator.cost import compile_device
from simulator.cost.work import Gemm, Stream
from simulator.errors import InputError
from simulator.run.simulate import simulate
from simulator.specs import load_scenario
from simulator.specs.model import LayerKind, Model
from simulator.specs.scenario import Scenario
from simulator.training import flops, memory, operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.pass_costs import PassCosts
from simulator.training.step import Chunks, Collective, Kernel, Step
from tests import jobs

SPARSE = LayerKind("grouped", "moe")
LEAN = {"biases": False, "tied_embeddings": False, "norm": "rmsnorm", "position": "rotary", "gated_ffn": True}
SHAPE = jobs.model(experts=16, top_k=4, expert_ffn=512, **LEAN)


def job(shape: Model = SHAPE, nodes: int = 1, **changes: Any) -> Job:
    return build_job(jobs.scenario(shape=shape, nodes=nodes, software=jobs.stack("megatron-core"), **changes))


def sent(built: Job, kind: LayerKind = SPARSE) -> list[float]:
    passes = [*operators.layer_forward(built, kind), *operators.layer_backward(built, kind)]
    return [step.size for step in operators.collectives(passes) if step.axis == "ep"]


@pytest.mark.parametrize("tp", [1, 2])
def test_every_copy_of_a_row_is_sent_four_times_a_layer(tp: int) -> None:
    """Forward dispatch and combine, and their gradients: tokens x top-k x hidden x element each."""
    built = job(tp=tp, ep=4, etp=1)
    each = 1024 / tp * SHAPE.top_k * SHAPE.hidden * 2  # type: ignore[operator]  # a mixture
    assert sent(built) == pytest.approx([each] * 4)
    assert not sent(job(tp=tp, ep=1))


@pytest.mark.parametrize(("name", "published"), [("fine-grained", 1488), ("bigmac", 372)])
def test_exchanges_of_bigmac_are_those_of_its_table(name: str, published: float) -> None:
    """GiB that 32 devices send each other in an iteration of 256 sequences: arXiv:2502.16927, Table 4."""
    loaded = load_scenario(f"papers/bigmac/{name}-xl", ("training.global_batch=256",)).scenario
    assert isinstance(loaded, Scenario)
    built = build_job(loaded)
    each = sum(sent(built, built.kinds[0])) * 31 / 32
    assert 24 * 8 * 32 * each / 2**30 == pytest.approx(published, rel=1e-12)


@pytest.mark.parametrize(
    "layout", [{"ep": 8}, {"tp": 2, "ep": 4}, {"tp": 2, "ep": 4, "etp": 1}, {"tp": 4, "etp": 2, "ep": 4, "pp": 2}]
)
def test_parameters_of_all_ranks_add_up(layout: dict[str, int]) -> None:
    """Every parameter lies on as many ranks as say that they copy it, tensor-parallel copies of vectors apart."""
    built, whole = job(nodes=2, **layout), job(nodes=2)
    found = 0.0
    for stage in range(built.pp):
        for copies in built.replicas:
            owned = sum(memory.parameters(built, chunk, copies) for chunk in memory.chunks_of_stage(built, stage))
            found += owned * built.mesh.world / built.pp / copies.count
    expected = sum(memory.parameters(whole, chunk) for chunk in memory.all_chunks(whole))
    whole_everywhere = SHAPE.layers * (2 + 16) * SHAPE.hidden + SHAPE.hidden  # norms and routers
    assert found == pytest.approx(expected + (built.tp - 1) * whole_everywhere, rel=1e-12)


def test_experts_have_replicas_of_their_own() -> None:
    dense, experts = job(nodes=2, tp=2, ep=4, etp=1).replicas
    assert (dense.count, dense.shard) == (8, 8)
    assert (experts.count, experts.shard) == (4, 4)
    assert [copies.experts for copies in job(tp=2, ep=1).replicas] == [False]


def test_a_row_works_for_the_experts_that_it_visits() -> None:
    """Three matrices of each of its experts, and not those of the others."""
    built = job()
    more = build_job(jobs.scenario(shape=SHAPE.model_copy(update={"top_k": 5}), software=built.stack))
    each = flops.layer_forward_flops(more, SPARSE) - flops.layer_forward_flops(built, SPARSE)
    assert each == pytest.approx(2 * 1024 * 3 * SHAPE.hidden * 512)
    rows = {step.name: step.work for step in operators.layer_forward(built, SPARSE) if hasattr(step, "work")}
    assert (rows["experts in"].m, rows["experts in"].batch) == (1024 * 4 // 16, 16)  # type: ignore[union-attr]  # products


def test_a_busy_device_holds_all_up() -> None:
    counts = [4.0] + [1.0] * 15
    even, uneven = (
        jobs.scenario(shape=SHAPE, software=jobs.stack("megatron-core"), ep=8, training={"routing": routing})
        for routing in ({}, {"load": "counts", "counts": counts})
    )
    assert build_job(uneven).exchange.spread.busiest == pytest.approx(8 * 5 / 19)
    slow, quick = simulate(uneven).metrics["step_time_s"], simulate(even).metrics["step_time_s"]
    assert slow > 1.2 * quick


@pytest.mark.parametrize("parts", [2, 4, 8])
@pytest.mark.parametrize("travels", [0.25, 0.9, 1.1, 2.0])
def test_parts_hide_their_exchanges_exactly_when_they_are_worked_on_for_longer(parts: int, travels: float) -> None:
    """With exchanges of t and e of work a part: 2t + Ne, or 2Nt where the exchanges beside a part take longer."""
    quick = job(ep=8, training={"expert_chunks": parts})
    steps = list(operators.layer_forward(quick, SPARSE))
    (chunks,) = (step for step in steps if isinstance(step, Chunks))
    works = [step.work for step in chunks.steps if isinstance(step, Kernel)]
    others = [step.work for step in steps if isinstance(step, Kernel)]
    device = compile_device(jobs.cluster().node.accelerator)
    known = PassCosts(quick, device, lambda comm: 0)
    e, rest = (sum(known.kernel(work).total for work in some) for some in (works, others))
    t = round(travels * e)
    content = PassCosts(quick, device, lambda comm: t).piece(steps).content
    assert content.total == rest + max(2 * t + parts * e, 2 * parts * t)
    assert content.exposed == max(2 * t, 2 * parts * t - parts * e)


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("travels", [0.5, 3.0])
def test_shared_experts_work_while_rows_travel(travels: float, back: bool) -> None:
    """What comes before their nonlinearity beside the way there, what comes after beside the way back: the longer of
    both each, where they stand in line with the exchanges otherwise."""
    shape = SHAPE.model_copy(update={"shared_experts": 1})
    passes = operators.layer_backward if back else operators.layer_forward
    whole, beside = (job(shape, ep=8, training={"overlap_shared_experts": on}, dp=8) for on in (False, True))
    costs = PassCosts(beside, compile_device(jobs.cluster().node.accelerator), lambda comm: 0)
    (chunks,) = (step for step in passes(beside, SPARSE) if isinstance(step, Chunks))
    first, last = (
        sum(costs.kernel(step.work).total for step in half if isinstance(step, Kernel))
        for half in (chunks.meanwhile, chunks.afterwards)
    )
    assert min(first, last) > 0
    t = round(travels * max(first, last))
    costs.ticks = lambda comm: t
    apart, together = (costs.piece(passes(one, SPARSE)).content.total for one in (whole, beside))
    assert apart - together == min(t, first) + min(t, last)


@pytest.mark.parametrize("apart", [True, False])
def test_gathers_of_experts_travel_beside_exchanges_where_their_lanes_are_apart(apart: bool) -> None:
    """Where exchanges of t and gathers of g decide: 2Nt + 2g apart (case 3 of FSMoE), else N(2t + 2g)."""
    parts, t, g = 4, 50_000_000_000, 20_000_000_000
    lanes = {"expert_chunks": parts, "expert_lanes": "apart" if apart else "one"}
    built = job(tp=2, etp=2, ep=4, training=lanes)
    quick = replace(built, stack=built.stack.model_copy(update={"overlap_tensor": "none"}))
    (chunks,) = (step for step in operators.layer_forward(quick, SPARSE) if isinstance(step, Chunks))
    ticks = {"ep": t, "etp": g}
    costs = PassCosts(quick, compile_device(jobs.cluster().node.accelerator), lambda comm: ticks[comm.axis])
    assert costs.piece([chunks]).content.total == (2 * parts * t + 2 * g if apart else 2 * parts * (t + g))


def test_parts_send_and_work_as_much_as_the_whole() -> None:
    for passes in (operators.layer_forward, operators.layer_backward):
        whole, parts = (
            list(operators.each(passes(job(ep=8, training={"expert_chunks": number}), SPARSE))) for number in (1, 4)
        )
        for amount in (moved, worked):
            assert sum(map(amount, parts)) == pytest.approx(sum(map(amount, whole)), rel=1e-12)


def moved(step: Step) -> float:
    return step.size if isinstance(step, Collective) else 0.0


def worked(step: Step) -> float:
    work = step.work if isinstance(step, Kernel) else None
    return work.flops if isinstance(work, Gemm) else work.read_bytes if isinstance(work, Stream) else 0.0


def test_parts_of_an_exchange_shorten_a_step_that_waits_for_it() -> None:
    times = {
        parts: simulate(
            jobs.scenario(
                shape=SHAPE,
                nodes=4,
                sequence=8192,
                batch=32,
                software=jobs.stack("megatron-core", grouped=True),
                ep=16,
                training={"expert_chunks": parts},
            )
        ).metrics
        for parts in (1, 4)
    }
    assert times[4]["step_time_s"] < 0.95 * times[1]["step_time_s"]
    assert times[4]["exposed_communication_s"] < 0.8 * times[1]["exposed_communication_s"]


def test_copies_of_experts_are_gathered_before_a_layer_and_summed_after_it() -> None:
    """Two copies a device, of two matrices and a gate: 2 x 3 x hidden x inner elements to each device, gradients back;
    they are kept besides, and updated by their owners alone."""
    hot = {"routing": {"load": "zipf", "replicas": 2}}
    plain, copied = (job(ep=8, training={"routing": {"load": "zipf"}}), job(ep=8, training=hot))
    each = 2 * 3 * SHAPE.hidden * 512
    gathered, summed = (operators.copied_experts(copied, SPARSE, back)[0] for back in (False, True))
    assert (gathered.size * 7 / 8, summed.size * 7 / 8) == pytest.approx((each * 2, each * copied.reduce_bytes))
    assert not operators.copied_experts(plain, SPARSE)
    before, after = (memory.static_memory(one, 0) for one in (plain, copied))
    assert after.pop("copies of experts") == SHAPE.layers * each * (2 + copied.stack.gradient_bytes)
    assert before == after


def test_copies_of_experts_even_out_a_hot_device() -> None:
    times: dict[int, float] = {}
    software = jobs.stack("megatron-core")
    for replicas in (0, 1, 2):
        load = {"load": "zipf", "replicas": replicas}
        hot = jobs.scenario(shape=SHAPE, nodes=2, sequence=4096, ep=16, software=software, training={"routing": load})
        times[replicas] = simulate(hot).metrics["step_time_s"]
    even = simulate(jobs.scenario(shape=SHAPE, nodes=2, sequence=4096, ep=16, software=software))
    assert even.metrics["step_time_s"] < times[1] < 0.8 * times[0]


def test_more_parts_than_rows() -> None:
    with pytest.raises(InputError, match="expert_chunks 2,000 of the 512 rows"):
        job(tp=2, ep=4, etp=1, training={"expert_chunks": 2000})
    assert any("expert_chunks: no rows" in text for text in job(training={"expert_chunks": 2}).warnings)
    assert any(
        "expert_lanes: expert_chunks is 1" in text for text in job(ep=8, training={"expert_lanes": "one"}).warnings
    )


@pytest.mark.parametrize(
    "layout",
    [
        {"tp": 2, "ep": 4, "etp": 1},
        {"pp": 2, "ep": 8},
        {"ep": 16, "zero": 3},
        {"tp": 2, "ep": 4, "pp": 2, "training": {"expert_chunks": 4}},
        {"ep": 8, "pp": 2, "training": {"routing": {"load": "zipf", "replicas": 2}}},
    ],
)
def test_folded_equals_unfolded(layout: dict[str, Any]) -> None:
    scenario = jobs.scenario(shape=SHAPE, nodes=2, software=jobs.stack("megatron-core"), **layout)
    folded, whole = simulate(scenario, fold="exact"), simulate(scenario, fold="none")
    rounding = len(whole.spans.start) * 1e-12
    assert folded.metrics["step_time_s"] == pytest.approx(whole.metrics["step_time_s"], rel=1e-9, abs=rounding)
    assert len(folded.classes) <= len(whole.classes)


@pytest.mark.parametrize(
    ("layout", "path", "words"),
    [
        ({"ep": 3}, "training.parallel.ep", "does not divide the 16 experts"),
        ({"ep": 16}, "training.parallel.ep", "etp 1 x ep 16 = 16 does not divide it"),
        ({"tp": 2, "sequence_parallel": False}, "training.parallel.sequence_parallel", "experts beside tensor"),
    ],
)
def test_layouts_that_do_not_fit(layout: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        job(**layout)
    assert caught.value.problems[0].path == path


@pytest.mark.parametrize("axis", ["ep", "etp"])
def test_experts_need_experts(axis: str) -> None:
    with pytest.raises(InputError, match=f"{axis} 2: small has no experts"):
        job(jobs.model(), **{axis: 2})
