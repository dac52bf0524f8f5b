"""Jitter, stragglers and slow links: what must hold whatever the layout."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.results import dumps, to_json
from simulator.results.result import Result
from simulator.run.simulate import simulate
from simulator.specs.scenario import Scenario
from tests import jobs
from tests.effort import simulations

CHOICES = st.fixed_dictionaries(
    {
        "layout": st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2])),
        "microbatches": st.sampled_from([2, 4]),
        "zero": st.sampled_from([0, 1, 2, 3]),
        "overlap": st.booleans(),
        "cluster": st.sampled_from(["generic-a100", "efa-p4d", "frontier"]),
    }
)
CHOSEN = {"microbatches": 4, "zero": 3, "overlap": True}
SOONER = CHOSEN | {"layout": (4, 4, 2), "cluster": "frontier"}
APART = CHOSEN | {"layout": (1, 4, 2), "zero": 0, "overlap": False, "cluster": "frontier"}
LATER = CHOSEN | {"layout": (2, 2, 1), "cluster": "generic-a100"}
STRAGGLERS = {"stragglers": {"count": 2, "slowdown": 1.3}}
SLOW_LINK = {"slow_links": {"count": 1, "factor": 0.2}}
ROUNDING = 1e-9
PASSES_BY = 0.005
"""Share of a step by which a delay may shorten it, or lengthen it by more than itself: what comes later may meet less
of what shares its device or links, or more. Of 1,145 random steps with a slow device 11 did, by 0.13 % at most."""


def build(choices: dict[str, Any], noise: dict[str, Any], steps: int = 1, seed: int = 0) -> Scenario:
    tp, pp, vpp = choices["layout"]
    dp, overlap = 16 // (tp * pp), choices["overlap"]
    found = jobs.scenario(
        nodes=2,
        devices=8,
        on=choices["cluster"],
        tp=tp,
        pp=pp,
        vpp=vpp if pp > 1 else 1,
        zero=choices["zero"],
        batch=dp * choices["microbatches"] * (pp if vpp > 1 else 1),
        software=jobs.stack(overlap_gradients=overlap, overlap_parameters=overlap),
        training={"steps": steps, "noise": noise},
    )
    return found.model_copy(update={"seed": seed})


def step(choices: dict[str, Any], **noise: Any) -> float:
    return simulate(build(choices, noise)).metrics["step_time_s"]


def times(result: Result) -> list[int]:
    return result.step_times.tolist()


@simulations(15)
@given(choices=CHOICES)
def test_noise_that_does_nothing_changes_nothing(choices: dict[str, Any]) -> None:
    nothing = {
        "jitter": 0.0,
        "stragglers": {"count": 3, "slowdown": 1.0},
        "slow_links": {"count": 2, "factor": 1.0},
    }
    clean, still = simulate(build(choices, {})), simulate(build(choices, nothing))
    assert still.metrics == clean.metrics
    assert still.breakdown == clean.breakdown
    np.testing.assert_array_equal(still.spans.end, clean.spans.end)


@simulations(12)
@given(choices=CHOICES, seed=st.integers(0, 99))
def test_folded_equals_unfolded(choices: dict[str, Any], seed: int) -> None:
    scenario = build(choices, {"jitter": 0.05, **STRAGGLERS, **SLOW_LINK}, steps=3, seed=seed)
    folded, whole = simulate(scenario, fold="exact"), simulate(scenario, fold="none")
    assert len(folded.classes) <= len(whole.classes)
    ticks = len(whole.spans.start)
    assert times(folded) == pytest.approx(times(whole), rel=ROUNDING, abs=ticks)
    shown = folded.step_times[folded.provenance["step_shown"]]
    assert int(folded.spans.end.max()) == pytest.approx(int(shown), rel=ROUNDING, abs=ticks)
    for part in folded.breakdown:
        assert sum(part.values()) == pytest.approx(int(folded.spans.end.max()) / 1e12, rel=ROUNDING)


@simulations(25)
@given(choices=CHOICES, device=st.integers(0, 15), slowdown=st.floats(1.0, 3.0))
@example(SOONER, 11, 1.01)
@example(LATER, 9, 1.001)
@example(APART, 0, 1.0625)
def test_a_straggler_slows_by_no_more_than_its_slowdown(choices: dict[str, Any], device: int, slowdown: float) -> None:
    clean = step(choices)
    slow = step(choices, stragglers={"devices": [device], "slowdown": slowdown})
    assert clean * (1 - PASSES_BY) <= slow <= slowdown * clean * (1 + PASSES_BY)


@simulations(20)
@given(choices=CHOICES)
def test_slow_links_slow_exactly_those_who_use_them(choices: dict[str, Any]) -> None:
    clean = simulate(build(choices, {}))
    card = simulate(build(choices, {"slow_links": {"links": ["NIC 0"], "factor": 0.2}}))
    assert card.metrics["step_time_s"] >= clean.metrics["step_time_s"] * (1 - ROUNDING)
    if any("nothing travels" in text for text in card.warnings):
        assert card.metrics["step_time_s"] == clean.metrics["step_time_s"]


@simulations(5)
@given(choices=CHOICES, seed=st.integers(0, 2**63))
def test_the_seed_decides(choices: dict[str, Any], seed: int) -> None:
    noise = {"jitter": 0.05, **STRAGGLERS}
    one, same, other = (simulate(build(choices, noise, steps=4, seed=s)) for s in (seed, seed, seed + 1))
    assert dumps(to_json(one)) == dumps(to_json(same))
    assert times(one) == times(same) != times(other)


def test_a_slow_card_between_nodes_costs_time_and_one_inside_does_not() -> None:
    base = {"layout": (1, 1, 1), "microbatches": 2, "zero": 0, "overlap": False, "cluster": "efa-p4d"}
    slow = {"slow_links": {"links": ["NIC 0"], "factor": 0.1}}
    assert step(base, **slow) > 1.05 * step(base)
    inside = jobs.scenario(nodes=1, devices=8, on="efa-p4d", batch=16, training={"noise": slow})
    clean = jobs.scenario(nodes=1, devices=8, on="efa-p4d", batch=16)
    assert simulate(inside).metrics == simulate(clean).metrics
