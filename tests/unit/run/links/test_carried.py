"""Link loads of a run: one computation for the page, the pictures, the trace and the warning."""

import json
from dataclasses import replace
from html import escape

import pytest

from simulator.fabric import build
from simulator.report.export import trace
from simulator.report.result import html
from simulator.report.result.page import page
from simulator.report.step import sections
from simulator.results import Result
from simulator.results.link_rates import over_time
from simulator.results.result import LinkLoad
from simulator.results.summary import to_json
from simulator.run.links.carried import HOST_LINK, overloaded
from simulator.run.simulate import simulate
from simulator.specs.base import Figure
from simulator.specs.scenario import Scenario
from simulator.study.sensitivity import sensitivities
from tests import jobs


@pytest.fixture(scope="module")
def result() -> Result:
    """Parameters are gathered and gradients reduced while a pipeline sends over the same cards."""
    return simulate(overlapping())


def overlapping() -> Scenario:
    software, shape = jobs.stack("megatron-core"), jobs.model(hidden=4096, heads=32)
    return jobs.scenario(nodes=4, software=software, shape=shape, batch=32, tp=1, pp=2, dp=16, zero=1)


def test_links_that_overlapping_axes_would_overload_are_shared(result: Result) -> None:
    shared = [load for load in result.links if load.rates]
    assert shared
    assert all(load.peak <= load.capacity * (1 + 1e-6) for load in result.links)
    assert all(load.at_peak for load in shared)
    assert not any("share links" in text for text in result.warnings)


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


def test_the_busiest_link_has_a_name_that_the_fabric_knows(result: Result) -> None:
    """One of its kind, in the document, in the page and on the terminal where it is in use a tenth of the time."""
    fabric = build(overlapping().cluster)
    for load in result.links:
        (link,) = fabric.find(load.busiest)
        assert fabric.kinds[fabric.block_of(link)] == load.name
    assert [link["busiest"] for link in to_json(result)["links"]] == [load.busiest for load in result.links]
    hot = max(result.links, key=lambda load: load.utilisation)
    assert escape(hot.busiest) in html.document(result)
    assert ("the busiest:" in page(result)) == (hot.utilisation >= sections.HOT)


def test_a_link_within_its_capacity_is_not_warned_of() -> None:
    load = LinkLoad("NIC up", 1, 50e9, 1e9, 0.1, {"forward": 1e9}, (0,), 50e9, ("forward",))
    assert overloaded((load,)) == ()
    [warning] = overloaded((replace(load, peak=79e9), replace(load, name="NIC down", peak=79e9)))
    assert warning.endswith("NIC up, NIC down 79.0 GB/s of 50.0 GB/s in `forward`")
    [warning] = overloaded((replace(load, peak=79e9, at_peak=("forward", "gather parameters")),))
    assert warning.endswith("in `forward` and `gather parameters` (dp)")


def offloading() -> Scenario:
    """A step whose devices wait for a slow link to their hosts."""
    plain = jobs.scenario(micro=2, pp=2, training={"recompute": "none", "offload_layers": 4})
    slow = Figure[float](value=1e9, status="estimate", source="test")
    accelerator = plain.cluster.node.accelerator.model_copy(update={"host_link": slow})
    node = plain.cluster.node.model_copy(update={"accelerator": accelerator})
    return plain.model_copy(update={"cluster": plain.cluster.model_copy(update={"node": node})})


def test_a_host_link_that_holds_the_step_back_is_named_as_that() -> None:
    """Among the links with all that crosses it, in the parts of the step, on the critical path and in the headline."""
    result = simulate(offloading())
    ways = [load for load in result.links if load.name.startswith(HOST_LINK)]
    assert [load.name for load in ways] == ["host link up", "host link down"]
    for load in ways:
        assert load.bytes == pytest.approx(result.metrics["step_time_s"] * load.utilisation * 1e9)
        assert 0.9e9 < load.peak <= 1.001e9
        assert over_time(result.spans, load).bytes == pytest.approx(load.bytes)
    path = result.critical_path
    assert path.by_link[HOST_LINK] > 0.5 * result.metrics["step_time_s"]
    assert path.by_link[HOST_LINK] == pytest.approx(path.seconds["offload"])
    assert all("offload" in parts and not parts["host"] for parts in result.breakdown)
    for text in (page(result), html.document(result)):
        assert "for offloaded activations on the host" in text
        assert "host link up, down" in text
    assert not any("host link" in text for text in result.warnings)


def test_a_faster_host_link_is_among_what_to_change() -> None:
    gains = {row.name: row.gain for row in sensitivities(offloading())}
    assert gains["host_link"] == pytest.approx(1 - 1 / 1.1, abs=0.01)
    assert "host_link" not in {row.name for row in sensitivities(jobs.scenario())}


def test_launches_that_last_longer_than_copies_are_not_called_offloading() -> None:
    slow = jobs.stack(layer_overhead=Figure[float](value=1.0, status="estimate", source="test"))
    result = simulate(jobs.scenario(software=slow, training={"recompute": "none", "offload_layers": 1}))
    assert result.breakdown[0]["host"] > 0 == result.breakdown[0]["offload"]
    assert "host link up" in {load.name for load in result.links}
    assert not [load for load in simulate(jobs.scenario()).links if load.name.startswith(HOST_LINK)]
