"""What must hold for every training step, whatever the layout."""

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.results import dumps, to_json
from simulator.results.link_rates import over_time
from simulator.results.result import CriticalPath
from simulator.run.gather import gather
from simulator.run.simulate import run, simulate
from simulator.specs.scenario import Scenario
from simulator.specs.training import UserBuffers
from simulator.training import flops
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.passes import pipeline
from tests import jobs
from tests.effort import simulations

CHOICES = {
    "tp": st.sampled_from([1, 2, 4]),
    "pp": st.sampled_from([1, 2, 4]),
    "micro": st.sampled_from([1, 2]),
    "recompute": st.sampled_from(["none", "selective", "full"]),
    "schedule": st.sampled_from(["gpipe", "1f1b"]),
    "software": st.sampled_from(["megatron-lm-2021", "megatron-lm-2022", "megatron-core", "fsdp"]),
}


def build(tp: int, pp: int, micro: int, recompute: str, schedule: str, software: str, **changes: object) -> Scenario:
    dp = 16 // (tp * pp)
    return jobs.scenario(
        nodes=2,
        devices=8,
        batch=4 * dp * micro,
        micro=micro,
        tp=tp,
        pp=pp,
        software=jobs.stack(software, **changes),
        training={"recompute": recompute, "schedule": schedule},
    )


@simulations(25)
@given(**CHOICES)
def test_never_below_a_roof(**choices: object) -> None:
    scenario = build(**choices)  # type: ignore[arg-type]
    result = simulate(scenario)
    job = build_job(scenario)
    peak = scenario.cluster.node.accelerator.peak["bf16"].value
    assert result.metrics["step_time_s"] * peak * 16 >= flops.hardware_flops(job) * 0.5
    causal = flops.hardware_flops(job) - 0.5 * 4 * job.global_batch * job.model.layers * flops.attention_flops(
        job, jobs.LAYER
    )
    assert result.metrics["step_time_s"] * peak * 16 >= causal
    assert result.metrics["hfu"] >= result.metrics["mfu"] > 0


@simulations(25)
@given(**CHOICES)
def test_the_breakdown_is_the_step(**choices: object) -> None:
    result = simulate(build(**choices))  # type: ignore[arg-type]
    for part in result.breakdown:
        assert sum(part.values()) == pytest.approx(result.metrics["step_time_s"], rel=1e-9)
        assert min(part.values()) >= -1e-12
    for use in result.memory:
        assert sum(use.at_peak.values()) == pytest.approx(use.peak)
        assert float(use.level.max()) == pytest.approx(use.peak)


@simulations(25)
@given(**CHOICES, vpp=st.sampled_from([1, 2]))
def test_the_critical_path_is_the_step(vpp: int, **choices: object) -> None:
    interleaved = vpp > 1 and choices["pp"] != 1
    scenario = build(**choices | {"schedule": "interleaved-1f1b"} if interleaved else choices)  # type: ignore[arg-type]
    if interleaved:
        parallel = scenario.training.parallel.model_copy(update={"vpp": vpp})
        training = scenario.training.model_copy(update={"parallel": parallel})
        scenario = scenario.model_copy(update={"training": training})
    result = simulate(scenario)
    path, spans = result.critical_path, result.spans
    assert sum(path.seconds.values()) == pytest.approx(result.metrics["step_time_s"], rel=1e-9)
    assert "wait" not in path.seconds and "bubble" not in path.seconds
    assert min(path.seconds.values()) > 0
    for part, seconds in path.seconds.items():
        assert sum(one.get(part, 0.0) for one in path.by_class) == pytest.approx(seconds, rel=1e-9)
    assert len(path.by_class) == len(result.classes)
    assert spans.start[path.operations[0]] == 0
    assert spans.end[path.operations[-1]] == spans.end.max()
    assert np.array_equal(spans.start[path.operations[1:]], spans.end[path.operations[:-1]])
    assert_adds_up(path)


def assert_adds_up(path: CriticalPath) -> None:
    """Operations explain the step, links its communication, roofs its kernels."""
    communication = sum(seconds for part, seconds in path.seconds.items() if part.startswith("exposed"))
    kernels = sum(path.seconds.get(part, 0.0) for part in ("compute", "recompute", "optimizer"))
    for parts, whole in (
        (path.by_operation, sum(path.seconds.values())),
        (path.by_link, communication),
        (path.by_roof, kernels),
    ):
        assert sum(parts.values()) == pytest.approx(whole, rel=1e-9)
        assert all(seconds > 0 for seconds in parts.values())
        assert list(parts.values()) == sorted(parts.values(), reverse=True)


@simulations(15)
@given(**CHOICES, zero=st.sampled_from([0, 1, 2, 3]))
def test_link_load_over_time_is_the_load(zero: int, **choices: object) -> None:
    """What a link carries over the step is what its operations send, whenever that is."""
    result = simulate(build(**choices, zero=zero))  # type: ignore[arg-type]
    for load in result.links:
        assert sum(load.by_operation.values()) == pytest.approx(load.bytes, rel=1e-9)
        assert set(load.by_operation) <= set(result.spans.names)
        assert load.users
        rates = over_time(result.spans, load)
        if load.rates and choices["tp"] != 1:  # passes that run as one instruction share with nobody
            assert rates.bytes <= load.bytes * (1 + 1e-6)
        else:
            assert rates.bytes == pytest.approx(load.bytes, rel=1e-6 if load.rates else 1e-9)
        assert rates.rate.max() == rates.at_most(7).rate.max() == load.peak
        assert len(rates.at_most(7).time) <= 8


@simulations(20)
@given(**CHOICES)
def test_executors_agree_where_nothing_is_shared(**choices: object) -> None:
    scenario = build(**choices, zero=0, overlap_gradients=False, overlap_parameters=False)  # type: ignore[arg-type]
    events, sweep = simulate(scenario, executor="simpy"), simulate(scenario, executor="max-plus")
    assert np.array_equal(events.spans.start, sweep.spans.start)
    assert np.array_equal(events.spans.end, sweep.spans.end)


@simulations(60)
@given(
    **CHOICES,
    overlap_tensor=st.sampled_from(["none", "backward", "all", "steps", "tracked", "ladder"]),
    asks=st.sampled_from([0.0, 1.0, 3.0]),
    overhead=st.sampled_from([0.0, 50e-6, 1e-3]),
    offload=st.sampled_from([0, 1, 2]),
    blocking=st.booleans(),
    zero=st.sampled_from([0, 1]),
)
def test_lumped_stages_equal_their_parts_on_lanes(
    overlap_tensor: str, asks: float, overhead: float, offload: int, blocking: bool, **choices: object
) -> None:
    """A pass as one operation lasts to the tick what its kernels, collectives, launches and copies last on lanes."""
    stack = jobs.stack()
    changes = {
        "overlap_tensor": overlap_tensor if overlap_tensor in ("none", "backward", "all") else "none",
        "user_buffers": UserBuffers.model_validate(jobs.buffers(32 * asks, asks)) if overlap_tensor == "all" else None,
        "layer_overhead": stack.layer_overhead.model_copy(update={"value": overhead}),
        "overlap_gradients": False,
        "overlap_parameters": False,
    }
    scenario = build(**choices, **changes)  # type: ignore[arg-type]
    more: dict[str, object] = {"offload_layers": offload, "blocking_launches": blocking}
    if overlap_tensor in ("steps", "tracked") and choices["tp"] != 1:
        cut = scenario.training.parallel.model_copy(update={"sequence_parallel": True})
        more |= {"overlap_tensor": overlap_tensor, "parallel": cut}
    ladder = scenario.model.model_copy(update={"ladder_residual": overlap_tensor == "ladder"})
    scenario = scenario.model_copy(update={"model": ladder})
    scenario = scenario.model_copy(update={"training": scenario.training.model_copy(update=more)})
    lumped = gather(run(scenario, share_links=False))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Job, "shares", True)
        patch.setattr(pipeline, "beside", lambda chain, lowered, rank: np.ones((2, len(rank)), np.bool_))
        parts = gather(run(scenario, share_links=False))
    assert len(parts.spans.start) > len(lumped.spans.start)
    assert parts.spans.end.max() == lumped.spans.end.max()
    assert parts.breakdown == lumped.breakdown


def test_same_scenario_same_bytes() -> None:
    scenario = build(2, 2, 1, "full", "1f1b", "megatron-core")
    first, second = (dumps(to_json(simulate(scenario))) for _ in range(2))
    assert first == second
    assert json.loads(first)["provenance"]["events"] > 0


@simulations(15)
@given(**CHOICES, factor=st.floats(1.0, 8.0))
def test_a_faster_network_never_hurts(factor: float, **choices: object) -> None:
    scenario = build(**choices, overlap_gradients=False, overlap_parameters=False, zero=1)  # type: ignore[arg-type]
    node = scenario.cluster.node
    assert node.nics is not None
    bandwidth = node.nics.bandwidth.model_copy(update={"value": node.nics.bandwidth.value * factor})
    faster = node.model_copy(update={"nics": node.nics.model_copy(update={"bandwidth": bandwidth})})
    cluster = scenario.cluster.model_copy(update={"node": faster})
    assert simulate(scenario.model_copy(update={"cluster": cluster})).metrics["step_time_s"] <= simulate(
        scenario
    ).metrics["step_time_s"] * (1 + 1e-9)


@simulations(10)
@given(st.floats(40, 200), st.floats(1.01, 1.5), st.sampled_from(["dp-pp-tp-cp-ep", "tp-cp-ep-dp-pp"]))
@example(65, 70 / 65, "dp-pp-tp-cp-ep")
@example(140, 145 / 140, "dp-pp-tp-cp-ep")
def test_more_bandwidth_of_a_shared_bus_is_never_slower(gigabytes: float, factor: float, order: str) -> None:
    """Pairs of ranks share the bus of a server of cards on PCIe: what one pair would take alone is not what is best."""
    narrow, wide = (simulate(on_a_bus(bandwidth, order)) for bandwidth in (gigabytes, factor * gigabytes))
    assert wide.metrics["step_time_s"] <= narrow.metrics["step_time_s"] * (1 + 1e-9)


def on_a_bus(gigabytes: float, order: str) -> Scenario:
    """Eight cards on a bus of that bandwidth, each axis two wide."""
    base = jobs.scenario(
        on="server-8x-rtx-3090",
        software=jobs.stack("megatron-deepspeed"),
        shape=jobs.model(layers=4, hidden=512, heads=8),
        batch=8,
        tp=2,
        pp=2,
        dp=2,
        order=order,
    )
    bus = base.cluster.node.scale_up
    assert bus.bandwidth is not None
    figure = bus.bandwidth.model_copy(update={"value": gigabytes * 1e9})
    node = base.cluster.node.model_copy(update={"scale_up": bus.model_copy(update={"bandwidth": figure})})
    return base.model_copy(update={"cluster": base.cluster.model_copy(update={"node": node})})
