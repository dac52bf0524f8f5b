"""Link loads of a run: one computation for the page, the pictures, the trace and the warning."""

import json
from dataclasses import replace

import pytest

from simulator.report.export import trace
from simulator.report.result import html
from simulator.results import Result
from simulator.results.result import LinkLoad
from simulator.run.links import overloaded
from simulator.run.simulate import simulate
from tests import jobs


@pytest.fixture(scope="module")
def result() -> Result:
    """Parameters are gathered and gradients reduced while a pipeline sends over the same cards."""
    software, shape = jobs.stack("megatron-core"), jobs.model(hidden=4096, heads=32)
    return simulate(jobs.scenario(nodes=4, software=software, shape=shape, batch=32, tp=1, pp=2, dp=16, zero=1))


def test_links_that_overlapping_axes_overload_are_warned_of(result: Result) -> None:
    over = [load for load in result.links if load.peak > 1.001 * load.capacity]
    assert over
    [warning] = [text for text in result.warnings if text.startswith("operations that overlap share links")]
    for load in over:
        assert load.name in warning
        assert all(f"`{name}`" in warning for name in load.at_peak)


def test_the_trace_and_the_page_show_the_same_peak(result: Result) -> None:
    highest: dict[str, float] = {}
    for event in map(json.loads, trace.events(result)):
        if event["ph"] == "C" and "bytes/s" in event["args"]:
            highest[event["name"]] = max(highest.get(event["name"], 0.0), event["args"]["bytes/s"])
    page = html.document(result)
    assert highest
    for load in result.links:
        assert highest[load.name] == pytest.approx(load.peak, abs=1)
        assert f"{100 * load.peak / load.capacity:.1f} %" in page


def test_a_link_within_its_capacity_is_not_warned_of() -> None:
    load = LinkLoad("NIC up", 1, 50e9, 1e9, 0.1, {"forward": 1e9}, (0,), 50e9, ("forward",))
    assert overloaded((load,)) == ()
    [warning] = overloaded((replace(load, peak=79e9), replace(load, name="NIC down", peak=79e9)))
    assert "NIC up, NIC down 79.0 GB/s of 50.0 GB/s in `forward` (tp)" in warning
