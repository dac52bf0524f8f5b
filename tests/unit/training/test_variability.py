"""How much slower the slowest of devices that differ is, and what waits for it."""

from math import log, pi, sqrt
from typing import Any

import numpy as np
import pytest

from simulator.cost import Gemm, Stream, compile_device
from simulator.errors import InputError
from simulator.results.result import Result
from simulator.run.simulate import simulate
from simulator.specs.base import Figure
from simulator.specs.scenario import Scenario
from simulator.training.build import build_job
from simulator.training.pass_costs import PassCosts
from simulator.training.variability import drawn_paces, expected_maximum, slowest_pace
from tests import jobs

SPREAD = 0.03
PARTS = {"tp": 2, "pp": 2, "zero": 0}


def scenario(spread: float | None = SPREAD, how: str = "expected", nodes: int = 2, **parts: Any) -> Scenario:
    found = jobs.scenario(nodes=nodes, training={"variability": how}, **({**PARTS, **parts}))
    known = None if spread is None else Figure[float](value=spread, status="estimate", source="test")
    node = found.cluster.node
    accelerator = node.accelerator.model_copy(update={"variability": known})
    node = node.model_copy(update={"accelerator": accelerator})
    return found.model_copy(update={"cluster": found.cluster.model_copy(update={"node": node})})


def step(found: Result) -> float:
    return found.metrics["step_time_s"]


@pytest.mark.parametrize(
    ("count", "exact"),
    [
        (1, 0.0),
        (2, 1 / sqrt(pi)),
        (3, 1.5 / sqrt(pi)),
        (4, 1.0293753730),
        (5, 1.1629644736),
        (10, 1.5387527308),
        (100, 2.5075935),
        (1000, 3.2414358),
    ],
)
def test_the_expected_maximum_of_normals(count: int, exact: float) -> None:
    assert expected_maximum(count) == pytest.approx(exact, abs=2e-6)


def test_it_is_the_mean_of_many_draws() -> None:
    drawn = np.random.default_rng(1).standard_normal((20_000, 64)).max(axis=1)
    assert expected_maximum(64) == pytest.approx(drawn.mean(), abs=5 * drawn.std() / sqrt(len(drawn)))


def test_it_grows_with_the_devices_and_stays_below_its_bound() -> None:
    counts = [1, 2, 3, 8, 64, 512, 4096, 32_768, 524_288]
    found = [expected_maximum(count) for count in counts]
    assert found == sorted(found) and len(set(found)) == len(found)
    assert all(value <= sqrt(2 * log(count)) + 1e-9 for value, count in zip(found, counts, strict=True))


def test_a_device_alone_waits_for_none() -> None:
    parts = {"nodes": 1, "devices": 1, "tp": 1, "pp": 1}
    alone, equal = (simulate(scenario(how=how, **parts)) for how in ("expected", "equal"))
    assert slowest_pace(scenario(**parts)) == 1.0
    assert step(alone) == step(equal)
    assert alone.breakdown == equal.breakdown


def test_devices_are_equal_where_nothing_is_known_or_asked() -> None:
    unknown, equal = simulate(scenario(None)), simulate(scenario(how="equal"))
    assert step(unknown) == step(equal)
    assert jobs.scenario(**PARTS).training.variability == "equal"
    assert not [line for one in (unknown, equal) for line in one.assumptions if "differ" in line]


def test_a_mean_device_does_what_it_does_without_and_waits_for_the_rest() -> None:
    equal, found = simulate(scenario(how="equal")), simulate(scenario())
    assert step(equal) < step(found) <= step(equal) * slowest_pace(scenario())
    for one, other in zip(equal.breakdown, found.breakdown, strict=True):
        assert sum(other.values()) == pytest.approx(step(found), rel=1e-12)
        assert other["slowest"] > 0 and "slowest" not in one
        assert other["compute"] + other["recompute"] == pytest.approx(one["compute"] + one["recompute"], rel=1e-5)
        assert other["optimizer"] == pytest.approx(one["optimizer"], rel=1e-5)
    slower = 100 * (slowest_pace(scenario()) - 1)
    assert f"the slowest of 16, {slower:.2g} % slower" in " ".join(found.assumptions)


def test_only_what_arithmetic_bounds_is_slowed() -> None:
    long, passed = Gemm(4096, 4096, 4096, dtype="fp16"), Stream(1e9, 1e9)
    costs = []
    for how in ("equal", "expected"):
        given = scenario(how=how)
        device = compile_device(given.cluster.node.accelerator)
        costs.append(PassCosts(build_job(given), device, lambda comm: 0))
    equal, found = costs
    assert found.kernel(passed) == equal.kernel(passed)
    assert found.kernel(long).kernels == pytest.approx(equal.kernel(long).kernels * slowest_pace(scenario()), abs=1)


def test_more_devices_wait_longer() -> None:
    paces = [slowest_pace(scenario(nodes=nodes)) for nodes in (1, 2, 4, 8)]
    assert paces == sorted(paces) and len(set(paces)) == 4
    assert slowest_pace(scenario(), workers=2) == slowest_pace(scenario(nodes=1))


def test_folded_as_unfolded() -> None:
    folded, unfolded = (simulate(scenario(), fold=fold) for fold in ("exact", "none"))
    assert step(folded) == step(unfolded)


def test_drawn_devices_follow_the_seed() -> None:
    first, again = (drawn_paces(scenario(how="drawn"), 16) for _ in range(2))
    other = drawn_paces(scenario(how="drawn").model_copy(update={"seed": 5}), 16)
    more = drawn_paces(scenario(how="drawn"), 20)
    assert first is not None and other is not None and more is not None
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first, more[:16])
    assert (first != other).all()
    assert drawn_paces(scenario(), 16) is None and drawn_paces(scenario(None, "drawn"), 16) is None


def test_drawn_paces_have_the_spread_of_the_profile() -> None:
    paces = drawn_paces(scenario(how="drawn"), 50_000)
    assert paces is not None
    assert paces.mean() == pytest.approx(1.0, abs=5 * SPREAD / sqrt(50_000))
    assert paces.std() == pytest.approx(SPREAD, rel=0.02)


def test_drawn_steps_are_around_the_expected_one() -> None:
    drawn = [step(simulate(scenario(how="drawn").model_copy(update={"seed": seed}))) for seed in range(8)]
    equal, expected = (step(simulate(scenario(how=how))) for how in ("equal", "expected"))
    assert min(drawn) > equal
    assert np.mean(drawn) - equal == pytest.approx(expected - equal, rel=0.5)


@pytest.mark.parametrize("how", ["expected", "drawn"])
def test_a_choice_without_effect_is_told(how: str) -> None:
    assert f"no effect: variability {how}" in " ".join(simulate(scenario(None, how)).warnings)
    assert "variability" not in " ".join(simulate(scenario(how=how)).warnings)


def test_drawn_devices_are_refused_beside_local_steps() -> None:
    local = {"local_steps": {"inner": 4}, "variability": "drawn"}
    with pytest.raises(InputError, match="drawn devices are not simulated"):
        build_job(jobs.scenario(nodes=2, training=local, tp=2, pp=1))
