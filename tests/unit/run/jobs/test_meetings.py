"""What links carried for several jobs, counted before anything is merged."""

from itertools import pairwise

import pytest

from simulator.engine.load import Span
from simulator.run.jobs import meetings
from simulator.run.jobs import simulate as together
from simulator.run.jobs.meetings import Tally
from simulator.run.jobs.simulate import simulate_jobs
from simulator.specs import load_scenario
from tests.several import SMALL, SPINE, simulated


def test_what_is_counted_of_a_link() -> None:
    tally = Tally()
    for span in (
        Span(0, 10, 4.0, {("a", "reduce"): 4.0}),
        Span(10, 20, 4.0, {("a", "reduce"): 1.0, ("a", "gather"): 1.0, ("b", "caches"): 2.0}),
        Span(20, 30, 4.0, {("a", "reduce"): 1.0, ("b", "caches"): 1.0}),
        Span(30, 40, 4.0, {}),
    ):
        tally.add(span)
    assert (tally.together, tally.full) == (20, 10)
    assert tally.sent == {"a": 40.0 + 20.0 + 10.0, "b": 20.0 + 10.0}
    assert tally.at_once == {"a": 30.0, "b": 30.0}
    assert tally.rates == [(0, {"a": 4.0}), (10, {"a": 2.0, "b": 2.0}), (20, {"a": 1.0, "b": 1.0}), (30, {})]


def test_of_many_intervals_means_over_equal_stretches_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meetings, "MOST", 16)
    tally = Tally()
    for i in range(100):
        tally.add(Span(10 * i, 10 * i + 10, 4.0, {("a", "x"): 1.0 + i % 2} | ({("b", "y"): 2.0} if i % 3 else {})))
    tally.even()
    assert len(tally.rates) <= 16
    widths = {two - one for (one, _), (two, _) in pairwise(tally.rates)}
    assert widths == {tally.width}
    edges = [*(tick for tick, _ in tally.rates), tally.stop]
    for name in ("a", "b"):
        lasts = (stop - start for start, stop in pairwise(edges))
        carried = sum(by.get(name, 0.0) * ticks for (_, by), ticks in zip(tally.rates, lasts, strict=True))
        assert carried == pytest.approx(tally.sent[name])


@pytest.mark.parametrize("most", [64, 100_000])
def test_figures_do_not_depend_on_how_many_intervals_are_kept(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "INTERVALS", most)
    result = simulate_jobs(load_scenario(SPINE, SMALL).scenario)  # type: ignore[arg-type]
    for one, other in zip(result.meetings, simulated().meetings, strict=True):
        assert (one.link, one.links, one.together_s, one.full_s) == (
            other.link,
            other.links,
            other.together_s,
            other.full_s,
        )
    assert result.metrics["shared_link_s"] == simulated().metrics["shared_link_s"] > 0


def test_each_kind_of_link_counts_its_own() -> None:
    """Eight of the sixteen links up, and eight of those down, carry gradients of both."""
    found = {meeting.kind: (meeting.link, meeting.links) for meeting in simulated().meetings}
    assert found == {"leaf up": ("leaf up 0", 8), "leaf down": ("leaf down 0", 8)}


def test_rates_and_totals_of_a_meeting_are_one_truth() -> None:
    for meeting in simulated().meetings:
        spans = list(pairwise(meeting.rates))
        for name, size in meeting.bytes.items():
            carried = sum(by.get(name, 0.0) * (stop - start) / 1e12 for (start, by), (stop, _) in spans)
            assert carried == pytest.approx(size, rel=1e-9)
        several = sum(stop - start for (start, by), (stop, _) in spans if len(by) > 1) / 1e12
        assert several == pytest.approx(meeting.together_s)
        assert all(sum(by.values()) <= meeting.capacity * (1 + 1e-9) for _, by in meeting.rates)
        assert meeting.full_s <= meeting.together_s
