"""Traffic of one step that meets on links, whatever the layout."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.results.link_rates import over_time
from simulator.results.result import Result
from simulator.run.gather import gather
from simulator.run.simulate import run, simulate
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


def test_gradients_beside_sends_share_the_network_card() -> None:
    """ZeRO-2 beside pipelines: what both ask of the card together takes its time."""
    scenario = jobs.scenario(
        nodes=8,
        batch=128,
        pp=4,
        tp=1,
        zero=2,
        software=jobs.stack("megatron-core", bucket_size=None),
        training={"overlap_gradients": True},
    )
    shared, free = simulate(scenario), alone(scenario)
    over = [load.name for load in free.links if load.peak > 1.02 * load.capacity]
    assert over
    lasted, before = ((one.spans.end - one.spans.start).sum() for one in (shared, free))
    assert lasted > before and shared.metrics["step_time_s"] >= free.metrics["step_time_s"]
    for load in shared.links:
        if load.name in over:
            assert load.peak <= load.capacity * (1 + ROUNDING)
            assert load.rates and load.at_peak


@simulations(15)
@given(**LAYOUTS)
def test_tiers_say_how_far_they_may_be_off(**choices: object) -> None:
    scenario = build(**choices)  # type: ignore[arg-type]
    tiers, every = (run(scenario, fold=fold) for fold in ("tiers", "none"))  # type: ignore[arg-type]
    off = tiers.timeline.makespan / every.timeline.makespan - 1
    assert abs(off) <= tiers.classes.spread + ROUNDING
    assert every.classes.spread == 0
