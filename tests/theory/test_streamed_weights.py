"""Weights that pass through a window: iterations last the longer of computing and loading, memory holds the window."""

from typing import Any

import numpy as np
import pytest

from simulator.cli import main
from simulator.results.result import Result
from simulator.run.serve import serve
from simulator.serving.costs.beside.streaming import loaded
from simulator.specs import load_scenario
from simulator.specs.tiers.streamed_weights import StreamedWeights

FILE = "scenarios/serving/quickstart.yaml"


def two_lanes(layers: int, streamed: int, compute: int, load: int, window: int, iterations: int) -> list[int]:
    """When each of many iterations in a row ends: every layer computes after the one before it and after its load,
    loads follow each other, and one begins when a place of the window is free. Counted layer by layer."""
    places = {round(i * layers / streamed) for i in range(streamed)}
    assert len(places) == streamed
    ends, freed, computed, link, clock = list[int](), list[int](), 0, 0, 0
    for _ in range(iterations):
        for layer in range(layers):
            if layer in places:
                free = freed[computed - window] if computed >= window else 0
                link = max(link, free) + load
                computed += 1
                clock = max(clock, link) + compute
                freed.append(clock)
            else:
                clock += compute
        ends.append(clock)
    return ends


@pytest.mark.parametrize("window", [2, 3, 8])
@pytest.mark.parametrize(("layers", "streamed"), [(32, 32), (32, 16), (32, 8), (12, 4)])
@pytest.mark.parametrize(("compute", "load"), [(10, 7), (10, 10), (10, 23), (10, 39), (10, 200)])
def test_iterations_in_a_row_last_the_longer_of_both_lanes(
    layers: int, streamed: int, compute: int, load: int, window: int
) -> None:
    ends = two_lanes(layers, streamed, compute, load, window, 40)
    spans = np.diff(ends[20:])
    assert set(spans.tolist()) == {max(layers * compute, streamed * load)}


def run(*changes: str, weights: str = "", leap: bool = True) -> Result:
    given = [f"+serving.weights={weights}"] if weights else []
    small = ["requests.count=20", "serving.replicas=1", *changes, *given]
    return serve(load_scenario(FILE, small).spec, leap=leap)  # type: ignore[arg-type]


def _iterations(result: Result) -> dict[str, Any]:
    assert result.service is not None
    rows = result.service.replicas[0].iterations
    assert set(rows.count.tolist()) == {1}
    return {"lasts": rows.first, "decodes": rows.decodes, "prompts": rows.prompt_tokens, "context": rows.context}


def test_the_engine_waits_for_the_link_and_no_longer() -> None:
    """One request: each iteration lasts what it lasts with all weights resident, or the loads of its layers."""
    one = ("requests.count=1",)
    plain, slow = run(*one, leap=False), run(*one, weights="{path: host, share: 0.5}", leap=False)
    own, streamed = _iterations(plain), _iterations(slow)
    layers, device = _model(plain)
    ticks = slow_ticks(plain, slow, layers)
    np.testing.assert_array_equal(streamed["context"], own["context"])
    np.testing.assert_array_equal(streamed["lasts"], np.maximum(own["lasts"], ticks))
    assert (own["lasts"] < ticks).any() and device


def _model(result: Result) -> tuple[int, str]:
    assert result.scenario is not None and result.service is not None
    return int(result.scenario["model"]["layers"]), result.service.replicas[0].device


def slow_ticks(plain: Result, slow: Result, layers: int) -> int:
    """Ticks of half the layers over the link, from what left the devices' memory: all of them but a window of two."""
    gone = plain.memory[0].at_peak["weights"] - slow.memory[0].at_peak["weights"]
    each = gone / (layers // 2 - 2)
    link = slow.scenario["cluster"]["node"]["accelerator"]["host_link"]["value"]
    rate = float(link) if not isinstance(link, str) else float(link.split()[0]) * 1e9
    return round(layers // 2 * round(each) / rate * 1e12)


@pytest.mark.parametrize("weights", ["{path: host, share: 0.25, window: 4}", "{path: disk, bandwidth: 60 GB/s}"])
def test_leaps_change_nothing(weights: str) -> None:
    found = [run(weights=weights, leap=leap).service for leap in (True, False)]
    for name in ("first_token", "finish"):
        left, right = (getattr(service.requests, name).tolist() for service in found if service is not None)
        assert left == right


def test_what_leaves_memory_is_the_caches() -> None:
    plain, slow = run(), run(weights="{path: host, share: 0.5, window: 4}")
    before, after = (result.memory[0].at_peak for result in (plain, slow))
    freed = before["weights"] - after["weights"]
    assert freed > 0 and after["kv cache"] - before["kv cache"] == pytest.approx(freed, rel=1e-3)
    assert "weight loads" in slow.breakdown[0] and "weight loads" not in plain.breakdown[0]


def test_at_least_one_layer_is_loaded() -> None:
    assert loaded(StreamedWeights(path="host", share=0.001), 32) == 1
    assert loaded(StreamedWeights(path="host"), 32) == 32


@pytest.mark.parametrize(
    ("given", "words", "more"),
    [
        ("{path: disk}", ("`path: disk` and the `bandwidth`",), ()),
        ("{path: host, bandwidth: 3 GB/s}", ("stand together",), ()),
        ("{path: attic}", ("write `host` or `disk`",), ()),
        ("{share: 0.5}", ("weights.path",), ()),
        ("{path: host, window: 1}", ("weights.window", "write 2 or more"), ()),
        ("{path: host, share: 0}", ("weights.share",), ()),
        ("{path: host}", ("write `path: disk`",), ("cluster=clusters/laptop-cell",)),
    ],
)
def test_weights_that_cannot_be_loaded_so_are_refused_in_words(
    given: str, words: tuple[str, ...], more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FILE, "--quiet", "requests.count=10", f"+serving.weights={given}", *more]) == 2
    said = capsys.readouterr()
    assert not said.out and "Traceback" not in said.err
    for word in words:
        assert word in said.err, said.err
