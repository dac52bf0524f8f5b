"""Capacity planning with a made-up simulation: what is asked of it, and what is made of its answers."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError, Problem
from simulator.report.plan.page import page
from simulator.results.documents.plan import StatedObjectives
from simulator.results.result import Result
from simulator.results.serving.service import REJECTED, latencies
from simulator.specs.requests import Slo
from simulator.specs.scenario import ServingScenario
from simulator.study.plan.document import document, feasible
from simulator.study.plan.layouts import candidates
from simulator.study.plan.plan import Options, Plan, best_per_device, cheapest, plan, plan_layout, slo_of
from simulator.study.plan.probe import Probe, probe
from simulator.study.variants import parse_axes
from tests.plans import QUICKSTART, SLO, Simulated, base, chosen, one_layout, planned, several_layouts, threshold


def test_a_planted_rate_is_found_with_the_same_requests_each_time() -> None:
    simulated = Simulated(threshold(6.3))
    found = planned(simulated)
    assert found.state == "found"
    assert found.rate is not None
    assert found.miss is not None
    assert found.rate <= 6.3 < found.miss.rate <= 1.01 * found.rate
    assert found.runs == len(simulated.seen) == len(set(simulated.rates))
    assert simulated.rates[:3] == [4.0, 8.0, pytest.approx(32**0.5)]
    assert {(scenario.seed, scenario.requests.count) for scenario in simulated.seen} == {(0, 1000)}
    assert (found.devices, found.rate_per_device, found.odd) == (1, found.rate, ())
    assert found.usd_per_hour == pytest.approx(3.43)
    assert found.best is not None
    assert found.best.binding.name == "tpot"


def test_the_curve_adds_rates_that_were_not_tried() -> None:
    found = planned(Simulated(threshold(6.3)), options=Options(curve=8))
    rates = [probe.rate for probe in found.probes]
    assert rates == sorted(set(rates))
    assert found.rate is not None
    assert rates[0] == pytest.approx(0.2 * found.rate)
    assert rates[-1] >= 1.6 * found.rate * 0.999
    assert all(later / rate > 1.001 for rate, later in pairwise(rates))


def test_objectives_out_of_reach_are_told_with_requests_one_at_a_time() -> None:
    simulated = Simulated(lambda rate: 0.2)
    found = planned(simulated, options=Options(curve=8))
    assert (found.state, found.rate, simulated.rates) == ("unreachable", None, [4.0, 0.0])
    assert found.best is not None
    assert (found.best.rate, found.best.attainment) == (0.0, 0.2)
    odd = planned(Simulated(lambda rate: 0.3 if rate else 0.2))
    assert odd.best is not None
    assert (odd.state, odd.best.rate) == ("unreachable", 4.0)
    assert not feasible([found], Options())


def test_requests_too_few_to_load_the_system_have_no_largest_rate() -> None:
    found = planned(Simulated(lambda rate: 1.0))
    assert found.state == "unbounded"
    told = document([found], Options())
    assert "too few to load the system" in told.warnings[0]
    assert best_per_device([found]) is None


def test_a_higher_rate_that_meets_again_is_told() -> None:
    found = planned(Simulated(lambda rate: 0.95 if rate <= 5 or rate >= 7.9 else 0.1), options=Options(curve=0))
    assert found.rate is not None
    assert found.rate > 7.9  # doubling passed over the gap
    gap = planned(Simulated(lambda rate: 0.95 if rate < 6 and not 1 < rate < 2 else 0.1), options=Options(curve=8))
    told = document([gap], Options())
    missed_below = [probe.rate for probe in gap.odd if not probe.meets]
    assert missed_below
    assert any("is not always harder here" in text and "(missed)" in text for text in told.warnings)
    assert told.layouts[0].odd_rates == tuple(probe.rate for probe in gap.odd)


def test_a_target_is_tried_first_and_carried_or_not() -> None:
    simulated = Simulated(threshold(6.3))
    assert planned(simulated, options=Options(target=5.0)).carries is True
    assert simulated.rates[0] == 5.0
    missed = planned(Simulated(threshold(6.3)), options=Options(target=7.0))
    assert (missed.carries, missed.state) == (False, "found")
    assert not feasible([missed], Options(target=7.0))
    assert cheapest([missed]) is None


def test_replicas_are_as_few_as_carry_the_target() -> None:
    """Each replica carries 3/s, and 8 of them are there."""

    class Replicas(Simulated):
        def __call__(self, scenario: Any) -> Result:
            self.attained = threshold(3.0 * scenario.serving.replicas)
            return super().__call__(scenario)

    layout = ("serving.parallel.tp=1", "serving.parallel.pp=1", "serving.replicas=8")
    found = planned(Replicas(threshold(0)), *layout, shrinks=True, options=Options(target=10.0))
    assert (found.candidate.name, found.devices, found.carries) == ("tp 1, pp 1, replicas 4", 4, True)
    assert found.rate == pytest.approx(12.0, rel=0.01)
    full = planned(Replicas(threshold(0)), *layout, shrinks=True, options=Options(target=30.0))
    assert (full.devices, full.carries, full.rate) == (8, False, pytest.approx(24.0, rel=0.01))


def test_cheapest_and_best_per_device_are_marked() -> None:
    told = several_layouts(target=4.0)
    marks = {layout.name: (layout.best_per_device, layout.cheapest) for layout in told.layouts}
    assert marks == {"tp 1": (False, True), "tp 2": (True, False), "tp 4": (False, False), "tp 8": (False, False)}
    assert [layout.state for layout in told.layouts] == ["found", "found", "unreachable", "out of memory"]
    assert told.feasible
    assert not any(layout.cheapest for layout in several_layouts(target=50.0).layouts)


def test_what_the_simulation_refuses_is_a_plan_that_says_why() -> None:
    def refuse(scenario: Any) -> Result:
        raise InputError(Problem("the replicas take 16 devices", path="serving"))

    found = plan_layout(chosen(), Options(), refuse)
    assert (found.state, found.reason) == ("refused", "serving: the replicas take 16 devices")


def test_where_every_layout_is_refused_the_input_is_wrong() -> None:
    found = candidates(QUICKSTART, [SLO], parse_axes(["serving.parallel.tp=16,32"]), auto=False)
    with pytest.raises(InputError, match="the cluster has 8"):
        plan(found, Options())


@pytest.mark.parametrize(
    ("attainment", "count", "warns"), [(0.9, 100, ""), (0.99, 999, "1,000 or more"), (1.0, 5000, "single worst")]
)
def test_too_few_requests_for_the_share_are_a_warning(attainment: float, count: int, warns: str) -> None:
    class Few(Simulated):
        def __call__(self, scenario: Any) -> Result:
            result = super().__call__(scenario)
            return type(result)(**{**_fields(result), "metrics": {**result.metrics, "completed": float(count)}})

    meets: Callable[[float], float] = lambda rate: 1.0 if rate <= 6 else 0.5  # noqa: E731
    found = planned(Few(meets), slo=f"+slo={{tpot: 50 ms, attainment: {attainment}}}")
    warnings = [text for text in document([found], Options()).warnings if "meet the obj" in text or "may miss" in text]
    assert len(warnings) == bool(warns)
    assert warns in "".join(warnings)


def _fields(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in result.__dataclass_fields__}


def test_a_queue_that_grows_at_the_largest_rate_is_a_warning() -> None:
    grown = "saturated: requests come at 8/s"
    told = document([planned(Simulated(threshold(6.3), warnings=(grown, "a kernel is outside its table")))], Options())
    assert any("a longer run would miss" in text for text in told.warnings)
    assert "a kernel is outside its table" in told.warnings
    assert grown not in told.warnings


def test_the_document_says_all_of_a_rate() -> None:
    told = one_layout()
    (layout,) = told.layouts
    assert told.slo == StatedObjectives(ttft_s=1.0, tpot_s=0.05, e2e_s=None, attainment=0.9)
    assert layout.rate < layout.missed_at <= 1.01 * layout.rate
    assert (layout.process, layout.unit, layout.binding) == ("poisson", "requests", "tpot")
    assert layout.at_best.objectives["ttft"].limit_s == 1.0
    assert layout.at_best.metrics["request_goodput"] == pytest.approx(0.95 * layout.rate)
    assert told.provenance.simulations == len(layout.curve)
    assert told.assumptions == ("a block has 16 tokens",)


class Close(Simulated):
    """Arrivals that come by chance closer together than the rate says."""

    def __call__(self, scenario: ServingScenario) -> Result:
        found = super().__call__(scenario)
        return replace(found, metrics={**found.metrics, "request_goodput": 1.3 * self.rates[-1]})


def test_no_goodput_is_above_its_rate() -> None:
    (layout,) = document([planned(Close(threshold(6.3)))], Options()).layouts
    assert layout.at_best.goodput == pytest.approx(0.95 * layout.rate)
    assert all(probe.goodput <= probe.rate * probe.attainment for probe in layout.curve)
    talks = planned(Close(threshold(6.3)), "+requests.sessions={turns: {fixed: 3}, think: {fixed: 1}}")
    (layout,) = document([talks], Options()).layouts  # a conversation has several requests
    assert layout.at_best.goodput == pytest.approx(1.3 * layout.rate)


def test_layouts_that_a_cluster_has_room_for() -> None:
    found = candidates(QUICKSTART, ["cluster=clusters/dgx-a100", "cluster.nodes=1", SLO], (), auto=True)
    sizes = {(c.scenario.serving.parallel.tp, c.scenario.serving.parallel.pp): c.replicas for c in found}
    assert sizes == {
        (1, 1): 8,
        (1, 2): 4,
        (1, 4): 2,
        (1, 8): 1,
        (2, 1): 4,
        (2, 2): 2,
        (2, 4): 1,
        (4, 1): 2,
        (4, 2): 1,
        (8, 1): 1,
    }
    assert found[1].name == "tp 1, pp 2, replicas 4"


@pytest.mark.parametrize(
    ("file", "axes", "message"),
    [
        ("scenarios/quickstart.yaml", (), "this one trains"),
        (QUICKSTART, ("serving.replicas=1,2",), "chooses `serving.replicas` itself"),
        (QUICKSTART, ("serving.parallel.tp=1,2",), "chooses `serving.parallel.tp` itself"),
        ("scenarios/serving/disaggregated-70b-h100.yaml", (), "no layouts of `pools`"),
        (QUICKSTART, ("serving.batching.token_buget=1",), "did you mean `token_budget`"),
    ],
)
def test_layouts_that_cannot_be_made_are_refused(file: str, axes: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        candidates(file, (), parse_axes(axes), auto=True)


def test_without_objectives_or_a_rate_nothing_is_planned() -> None:
    with pytest.raises(InputError, match="nothing is promised"):
        plan(candidates(QUICKSTART, (), (), auto=False), Options())
    with pytest.raises(InputError, match="all at once"):
        plan(candidates(QUICKSTART, (SLO, "requests.arrivals={at_once: true}"), (), auto=False), Options())


def test_a_rate_that_a_longer_run_could_take_back_is_never_called_the_best() -> None:
    sound, larger, less = (planned(Simulated(threshold(rate))) for rate in (6.3, 8.1, 4.1))
    grown = planned(Simulated(threshold(8.1), warnings=("saturated: requests come at 8/s",)))
    assert (larger.settled, grown.settled) == (True, False)
    assert best_per_device([sound, larger, less]) is larger
    assert best_per_device([sound, grown]) is None
    assert best_per_device([sound, planned(Simulated(lambda rate: 1.0))]) is None
    told = document([sound, grown], Options())
    assert [layout.settled for layout in told.layouts] == [True, False]
    text = " ".join(page(told).split())
    assert "best per device" not in text
    assert "run too short" in text


def test_the_cheapest_layout_carries_the_rate_for_longer_than_the_run() -> None:
    options = Options(target=5.0)
    sound = planned(Simulated(threshold(6.3)), "serving.replicas=2", options=options)
    grown = planned(Simulated(threshold(6.3), warnings=("saturated: ",)), options=options)
    assert (sound.carries, grown.carries, sound.lasting, grown.lasting) == (True, True, True, False)
    assert cheapest([sound, grown]) is sound
    assert cheapest([grown]) is None
    assert "in a run too short to tell" in page(document([grown], options))


def test_no_layout_is_the_cheapest_while_a_cheaper_one_is_undecided() -> None:
    options = Options(target=5.0)
    dear, cheap = (planned(Simulated(threshold(6.3)), f"serving.replicas={count}", options=options) for count in (2, 1))
    assert cheapest([dear, cheap]) is cheap
    assert cheap.at_target is not None
    hasty = replace(cheap, at_target=replace(cheap.at_target, metrics=cheap.at_target.metrics | {"p90_e2el_ms": 1e6}))
    assert cheapest([dear, hasty]) is None


def test_a_system_that_rejects_all_requests_has_no_rate() -> None:
    full = base()
    assert full.service is not None
    requests = replace(full.service.requests, status=np.full_like(full.service.requests.status, REJECTED))
    found = planned(Simulated(threshold(5), feasible=False, service=replace(full.service, requests=requests)))
    assert (found.state, found.rate) == ("all requests rejected", None)
    assert not feasible([found], Options())


def tried(rate: float, asked: float = 100.0, p90_s: float = 1.0) -> Probe:
    """A rate that met everything, of so many requests."""
    metrics = {"completed": asked, "failed": 0.0, "unfinished": 0.0, "p90_e2el_ms": 1e3 * p90_s, "duration": 1e3}
    return Probe(rate, 0.9, 1.0, (), metrics, (), ())


def layout(rate: float, devices: int, price: float | None) -> Plan:
    """A layout that carries a target of 1/s."""
    found = {"best": tried(rate), "devices": devices, "usd_per_hour": price, "carries": True, "at_target": tried(1.0)}
    return Plan(chosen(), "found", **found)  # type: ignore[arg-type]


def test_the_best_per_device_is_not_the_one_with_the_largest_rate() -> None:
    wide, narrow = layout(10.0, 4, None), layout(3.0, 1, None)
    assert (wide.rate_per_device, narrow.rate_per_device) == (2.5, 3.0)
    assert best_per_device([wide, narrow]) is narrow


def test_the_cheapest_is_by_price_then_by_devices_then_by_rate() -> None:
    dear, cheap, more = layout(9.0, 1, 5.0), layout(2.0, 4, 3.0), layout(6.0, 4, 3.0)
    assert cheapest([dear, cheap, more]) is more
    assert cheapest([dear, cheap, layout(2.0, 2, None)]) is dear  # a price is not known: by devices


def test_a_run_is_short_where_requests_come_for_less_than_five_of_their_times() -> None:
    """100 requests at 2/s come within 50 s."""
    assert not tried(2.0, p90_s=10.0).short
    assert tried(2.0, p90_s=10.1).short
    assert not tried(0.0, p90_s=1e9).short


def test_what_a_share_of_all_requests_kept_to() -> None:
    """Of 200 requests 4 are rejected: the 180th of the other 196 in order, the last one, and nobody."""
    ttft = np.sort(latencies(base().service.requests).ttft) / 1e3  # type: ignore[union-attr]
    assert len(ttft) == 196
    for share, reached in ((0.9, ttft[179]), (0.98, ttft[195]), (0.985, float("inf")), (0.001, ttft[0])):
        slo = Slo.model_validate({"ttft": "1 s", "attainment": share})
        found = probe(lambda _: base(), chosen().scenario, slo, 4.0)
        assert [goal.reached_s for goal in found.goals] == pytest.approx([reached])


def test_devices_and_price_of_pools_are_those_of_all_replicas() -> None:
    """Two replicas of two devices and three of one; the price is that of seven."""
    first, second = "{name: a, role: prefill, replicas: 2, parallel: {tp: 2}}", "{name: b, role: decode, replicas: 3}"
    found = planned(Simulated(threshold(6.3)), f"+serving.pools=[{first}, {second}]")
    single = planned(Simulated(threshold(6.3)))
    assert (single.devices, found.devices) == (1, 7)
    assert found.usd_per_hour == pytest.approx(7 * single.usd_per_hour)  # type: ignore[operator]


def test_the_curve_leaves_out_what_was_tried() -> None:
    """Up to 1.6 times 4/s in eighths: the fifth is 4/s itself."""
    simulated = Simulated(threshold(4.0))
    assert planned(simulated, options=Options(curve=8)).rate == 4.0
    assert [rate for rate in simulated.rates if abs(rate - 4.0) < 0.01] == [4.0]
    assert sum(rate < 3.3 for rate in simulated.rates) == 4


def test_any_single_objective_is_a_promise() -> None:
    for key in ("ttft", "tpot", "e2e"):
        scenario = chosen(slo=f"+slo={{{key}: 1 s}}").scenario
        assert getattr(slo_of(scenario), key) == 1.0


@pytest.mark.parametrize("known", [{}, {"slo_attainment": float("nan")}])
def test_a_share_that_is_not_known_is_none(known: dict[str, float]) -> None:
    metrics = {name: value for name, value in base().metrics.items() if name != "slo_attainment"} | known
    slo = Slo.model_validate({"ttft": "1 s"})
    assert probe(lambda _: replace(base(), metrics=metrics), chosen().scenario, slo, 4.0).attainment == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("slo", ["{ttft: 300 ms, tpot: 60 ms}", "{tpot: 24 ms}", "{e2e: 3 s, attainment: 0.5}"])
def test_layouts_left_early_leave_the_winner_as_it_is(slo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.study.plan.plan._FEWEST", 10)
    machine = ["cluster=clusters/dgx-a100", "cluster.node.devices=4", "requests.count=60"]
    every = candidates(QUICKSTART, [*machine, f"+slo={slo}"], (), auto=True)
    whole = plan(every, Options(tolerance=0.05))
    raced = plan(every, Options(tolerance=0.05, cut=True))
    assert [one.candidate.name for one in raced] == [one.candidate.name for one in whole]
    best = max(whole, key=lambda one: one.rate_per_device or 0.0)
    again = max(raced, key=lambda one: one.rate_per_device or 0.0)
    assert (again.candidate.name, again.rate, again.state) == (best.candidate.name, best.rate, best.state)
    cut = {one.candidate.name: one.miss for one in raced if one.state == "cut"}
    assert cut
    assert sum(one.runs for one in raced) < sum(one.runs for one in whole)
    for one in whole:
        if (miss := cut.get(one.candidate.name)) is not None:
            assert one.rate is None or one.rate < miss.rate
    told = document(raced, Options())
    assert {row.name for row in told.layouts if row.state == "cut"} == set(cut)
    assert "`--every` finds its rate" in " ".join(page(told).split())


def test_a_target_is_held_to_by_every_layout() -> None:
    every = candidates(QUICKSTART, ["requests.count=20", SLO], parse_axes(["serving.replicas=1"]), auto=False)
    found = plan([*every, *every], Options(target=1.0, tolerance=0.3, cut=True))
    assert all(one.state != "cut" and one.carries for one in found)
