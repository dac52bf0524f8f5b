"""What a queue makes of an error of speed: near saturation an interval is wider, and says why."""

from collections.abc import Sequence
from math import exp, log

import numpy as np
import pytest

from simulator.results.result import Result
from simulator.results.spread import TTFT, Spread
from simulator.run.kinds import SERVING
from simulator.run.serve import ServingRun, again, run_serving, serve
from simulator.run.spread import saturation
from simulator.run.spread.near import ALONE, AT_A_RATE, AT_ONCE, IN_A_LOOP, apart, differing, like, load_of
from simulator.run.spread.saturation import FIRST, Strain, first_of, paced, strained, strains, unexplained
from simulator.serving.workload.generate import NEVER, Workload
from simulator.specs.requests import Requests
from simulator.specs.resolve import load_run
from simulator.specs.scenario import ServingScenario

PATH = "scenarios/serving/quickstart.yaml"
QUEUE = Strain(-0.5, 2.0, 0.8, 1.5, 0.9)


def _scenario(rate: float, count: int = 400, *more: str) -> ServingScenario:
    known = load_run(PATH, [f"requests.arrivals.poisson={rate}/s", f"requests.count={count}", *more]).scenario
    assert isinstance(known, ServingScenario)
    return known


def _never(run: ServingRun, workload: Workload) -> ServingRun:
    raise AssertionError("is not simulated again")


@pytest.fixture(scope="module")
def busy() -> ServingRun:
    return run_serving(_scenario(4.0, 2 * FIRST))


@pytest.mark.parametrize(
    ("requests", "load"),
    [
        ({"arrivals": {"poisson": "4 /s"}, "count": 100}, AT_A_RATE),
        ({"arrivals": {"constant": "1e6 /s"}, "count": 100}, AT_ONCE),
        ({"arrivals": {"at_once": True}, "count": 100}, AT_ONCE),
        ({"count": 100}, AT_ONCE),
        ({"arrivals": {"closed_loop": {"clients": 8}}, "count": 100}, IN_A_LOOP),
        ({"arrivals": {"closed_loop": {"clients": 100}}, "count": 100}, AT_ONCE),
        ({"arrivals": {"closed_loop": {"clients": 1}}, "count": 100}, ALONE),
        ({"arrivals": {"poisson": "4 /s"}, "count": 1}, ALONE),
    ],
)
def test_how_requests_come_is_told_from_their_description(requests: dict[str, object], load: str) -> None:
    lengths = {"prompt": {"fixed": 100}, "output": {"fixed": 10}}
    assert load_of(Requests.model_validate(requests | {"lengths": lengths})) == load


def test_runs_whose_requests_come_in_another_way_are_not_alike() -> None:
    own = like(_scenario(4.0))
    other = own._replace(load=AT_ONCE)
    assert apart(own, own) == 0 < apart(own, other)
    assert differing(own, other) == [AT_ONCE]


def test_far_from_saturation_nothing_is_simulated_again() -> None:
    assert strains(run_serving(_scenario(0.5, 50)), _never) == {}


@pytest.mark.parametrize("arrivals", ["{at_once: true}", "{closed_loop: {clients: 64}}"])
def test_what_waits_for_answers_has_no_queue_that_grows(arrivals: str) -> None:
    known = load_run(PATH, [f"requests.arrivals={arrivals}", "requests.count=100"]).scenario
    assert isinstance(known, ServingScenario)
    assert strains(run_serving(known), _never) == {}


def test_near_saturation_the_queue_decides_and_it_is_said(busy: ServingRun) -> None:
    found = strains(busy, again)[TTFT]
    assert found.low < -0.1 and found.high > 1.0
    plain, wide = (serve(busy.scenario, intervals=asked) for asked in (False, True))
    assert _ttft(wide)[1] > 3 * _ttft(plain)[1]
    assert _ttft(wide)[0] < _ttft(plain)[0]
    assert "near saturation" in wide.intervals["mean_ttft_ms"].basis
    assert "near saturation" not in plain.intervals["mean_ttft_ms"].basis
    assert wide.metrics == plain.metrics


def _ttft(result: Result) -> tuple[float, float]:
    return result.intervals["mean_ttft_ms"].low, result.intervals["mean_ttft_ms"].high


def test_the_first_requests_tell_how_long_all_of_them_would_wait(
    busy: ServingRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue grows in proportion to the requests: half of them give the factor of all within a third."""
    some = strains(busy, again)[TTFT]
    monkeypatch.setattr(saturation, "FIRST", 2 * FIRST)
    every = strains(busy, again)[TTFT]
    assert exp(some.high - every.high) == pytest.approx(1.0, abs=1 / 3)


def test_points_of_a_sweep_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.run.serve.again", _never)
    assert SERVING.evaluate(_scenario(8.0, 50)).feasible
    with pytest.raises(AssertionError, match="again"):
        SERVING.simulate(_scenario(8.0, 50))


def test_a_slower_system_at_a_rate_is_the_same_one_at_a_higher_rate(busy: ServingRun) -> None:
    twice = paced(busy.workload, 2.0)
    assert twice.arrival[-1] == pytest.approx(busy.workload.arrival[-1] / 2, abs=1)
    assert len(first_of(twice, 10)) == len(first_of(twice, 10).output) == 10
    waiting = paced(_columns([0, NEVER], [0, 100]), 2.0)
    assert waiting.arrival.tolist() == [0, NEVER] and waiting.delay.tolist() == [0, 50]


def _columns(arrival: Sequence[int], delay: Sequence[int]) -> Workload:
    ones, none = np.ones(2, np.int64), np.full(2, NEVER)
    return Workload(np.array(arrival), ones, ones, 0 * ones, none, np.array(delay))


@pytest.mark.parametrize("residual", [-1.2, -0.55, -0.3, 0.0, 0.4, 2.05, 2.5])
@pytest.mark.parametrize("ends", [(0.7, 1.6), (0.9, 3.0)])
def test_an_interval_holds_what_is_left_where_the_strained_one_holds_the_whole(
    residual: float, ends: tuple[float, float]
) -> None:
    plain = Spread(*ends)
    wide = strained(plain, QUEUE)
    left = unexplained(residual, QUEUE)
    assert (wide.low <= exp(residual) <= wide.high) == (plain.low <= exp(left) <= plain.high)


def test_errors_of_two_causes_add_up_as_squares() -> None:
    wide = strained(Spread(exp(-1.2), exp(1.5)), QUEUE)
    assert log(wide.low) == pytest.approx(-1.3) and log(wide.high) == pytest.approx(2.5)
    assert strained(wide, None) is wide and unexplained(0.3, None) == 0.3
