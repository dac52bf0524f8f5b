"""Traffic of one step that meets on links, whatever the layout."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import units
from simulator.results.link_rates import over_time
from simulator.results.result import Result
from simulator.run.gather import gather
from simulator.run.simulate import run, simulate
from simulator.specs.resolve import load_run
from simulator.specs.scenario import Scenario
from tests import jobs
from tests.effort import simulations

LAYOUTS = {
    "tp": st.sampled_from([1, 2]),
    "pp": st.sampled_from([1, 2, 4]),
    "zero": st.sampled_from([0, 1, 2, 3]),
    "software": st.sampled_from(["megatron-core", "fsdp", "megatron-lm-2022"]),
    "sequence": st.sampled_from([256, 1024]),
}
ROUNDING = 1e-6
"""Relative excess of a rate over a capacity that is rounding."""


def build(tp: int, pp: int, zero: int, software: str, sequence: int) -> Scenario:
    dp = 16 // (tp * pp)
    return jobs.scenario(
        nodes=2,
        batch=4 * dp,
        tp=tp,
        pp=pp,
        zero=zero if dp > 1 else None,
        sequence=sequence,
        software=jobs.stack(software),
    )


def alone(scenario: Scenario, **choices: object) -> Result:
    """The step when every operation has its links for itself."""
    return gather(run(scenario, share_links=False, **choices))  # type: ignore[arg-type]


@simulations(25)
@given(**LAYOUTS)
def test_no_link_carries_more_than_it_has(**choices: object) -> None:
    scenario = build(**choices)  # type: ignore[arg-type]
    result, free = simulate(scenario), alone(scenario)
    lumps = any("one instruction" in warning for warning in result.warnings)
    for load in result.links:
        assert load.peak <= load.capacity * (1 + ROUNDING) or lumps
        assert over_time(result.spans, load).rate.max() == pytest.approx(load.peak)
    assert result.metrics["step_time_s"] >= free.metrics["step_time_s"] * (1 - 1e-9)
    if not run(scenario).shared:
        assert np.array_equal(result.spans.end, free.spans.end)


@simulations(25)
@given(**LAYOUTS)
def test_folding_is_exact_with_what_meets_on_links(**choices: object) -> None:
    scenario = build(**choices)  # type: ignore[arg-type]
    folded, unfolded = (simulate(scenario, fold=fold) for fold in ("exact", "none"))  # type: ignore[arg-type]
    ticks = int(unfolded.spans.end.max())
    assert abs(int(folded.spans.end.max()) - ticks) <= max(ticks * 1e-9, len(unfolded.critical_path.operations))


def beside_sends(zero: int) -> Scenario:
    """Eight microbatches through four stages, whose gradients are reduced meanwhile."""
    stack = jobs.stack("megatron-core", bucket_size=None)
    training = {"overlap_gradients": True, "overlap_parameters": zero > 0}
    return jobs.scenario(nodes=8, batch=128, pp=4, tp=1, zero=zero, software=stack, training=training)


@pytest.mark.parametrize("zero", [2, 3])
def test_gradients_beside_sends_share_the_network_card(zero: int) -> None:
    """What both ask of the card together takes its time."""
    scenario = beside_sends(zero)
    shared, free = simulate(scenario), alone(scenario)
    over = [load.name for load in free.links if load.peak > 1.02 * load.capacity]
    assert over
    lasted, before = ((one.spans.end - one.spans.start).sum() for one in (shared, free))
    assert lasted > before and shared.metrics["step_time_s"] >= free.metrics["step_time_s"]
    for load in shared.links:
        if load.name in over:
            assert load.peak <= load.capacity * (1 + ROUNDING)
            assert load.rates and load.at_peak


@pytest.mark.parametrize(
    ("zero", "reductions", "gathers"), [(0, 2.0, 0.0), (1, 1.0, 1.0), (2, 8.0, 1.0), (3, 8.0, 16.0)]
)
def test_sharded_states_beside_pipelines_cost_what_their_bytes_say(
    zero: int, reductions: float, gathers: float
) -> None:
    """In passes of the ring over a stage, 32-bit for gradients, 16-bit for parameters: an all-reduce is two;
    ZeRO-2 reduces each of eight microbatches, ZeRO-3 gathers for each forward and backward. Links that are shared carry
    just these bytes."""
    links = {load.name: load for load in simulate(beside_sends(zero)).links}
    card = links["NIC up"]
    once = {load.name: load for load in simulate(beside_sends(0)).links}["NIC up"].by_operation["reduce gradients"] / 2
    assert card.by_operation["reduce gradients"] == pytest.approx(reductions * once)
    assert card.by_operation.get("gather parameters", 0.0) == pytest.approx(gathers * once / 2)
    assert sum(card.by_operation.values()) == pytest.approx(card.bytes)
    for load in links.values():
        if load.rates:
            lasts = np.diff([tick for tick, _ in load.rates]) / units.TICKS_PER_SECOND
            carried = (np.array([rate for _, rate in load.rates[:-1]]) * lasts).sum()
            assert carried == pytest.approx(load.bytes, rel=1e-6)


@simulations(15)
@given(**LAYOUTS)
def test_tiers_say_how_far_they_may_be_off(**choices: object) -> None:
    scenario = build(**choices)  # type: ignore[arg-type]
    tiers, every = (run(scenario, fold=fold) for fold in ("tiers", "none"))  # type: ignore[arg-type]
    off = tiers.timeline.makespan / every.timeline.makespan - 1
    assert abs(off) <= tiers.classes.spread + ROUNDING
    assert every.classes.spread == 0


UNEVEN = """
version: 1
name: uneven
cluster: {extends: clusters/l40s-cluster, nodes: 1}
model: {extends: models/llama-3-8b, layers: 8}
stack: megatron-deepspeed
training: {global_batch: 8, micro_batch: 4, sequence_length: 4096, precision: fp32,
           parallel: {tp: 2, pp: 2, cp: 2, zero: 3}}
"""


def test_folding_is_exact_where_chains_share_a_link_unevenly(tmp_path: Path) -> None:
    """On PCIe switches a call of a pass goes over the link of one chain for longer than over that of its neighbour."""
    (tmp_path / "uneven.yaml").write_text(UNEVEN, encoding="utf-8")
    scenario = load_run(tmp_path / "uneven.yaml").spec
    assert isinstance(scenario, Scenario)
    folded, unfolded = (simulate(scenario, fold=fold).metrics["step_time_s"] for fold in ("exact", "none"))
    assert folded == unfolded
