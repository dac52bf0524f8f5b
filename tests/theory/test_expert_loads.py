"""Experts that are loaded when rows ask for them: what is loaded against an independent count, and what it takes."""

from typing import Any

import numpy as np
import pytest

from simulator.cli import main
from simulator.random import stream
from simulator.results.result import Service
from simulator.run.serve import serve
from simulator.serving.costs.beside.expert_loads import Loading, Planes
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario

FILE = "scenarios/serving/quickstart.yaml"
MODEL = "model=models/olmoe-1b-7b"
LAYERS, EXPERTS, CHOSEN = 16, 64, 8
SIZE = 3 * 2048 * 1024 * 2
"""Bytes of an expert of OLMoE in 16 bits."""
ALONE = (
    MODEL,
    "requests.count=3",
    "serving.context=4096",
    "requests.arrivals={constant: 0.1 /s}",
    "requests.lengths={prompt: {fixed: 32}, output: {fixed: 30}}",
)


def given(memory: str, more: str = "") -> str:
    return f"+serving.expert_loads={{path: host, memory: {memory}{more}}}"


def run(*changes: str) -> Service:
    spec: Any = load_scenario(FILE, list(changes)).spec
    service = serve(spec).service
    assert service is not None
    return service


def planes(*changes: str) -> Planes:
    spec: Any = load_scenario(FILE, [MODEL, "serving.context=4096", *changes]).spec
    loads = resolve(spec)[0].cost.stages[0].loads
    assert isinstance(loads, Loading)
    return loads.planes


def _gap(service: Service) -> float:
    """Mean picoseconds of an iteration of one decode."""
    requests = service.requests
    return float(((requests.finish - requests.first_token) / (requests.output - 1)).mean())


def test_with_memory_for_all_experts_nothing_is_loaded() -> None:
    whole, kept = run(*ALONE), run(*ALONE, given("20 GB"))
    assert kept.requests.finish.tolist() == whole.requests.finish.tolist()


@pytest.mark.parametrize(("early", "factor"), [("0", 1.0), ("60 %", 0.4), ("1", 0.0)])
def test_iterations_wait_for_what_no_layer_hides(early: str, factor: float) -> None:
    """A decode asks for 8 of 64 experts of each layer; a quarter of them stays, the rest is loaded."""
    memory = LAYERS * EXPERTS // 4 * SIZE + 2 * SIZE
    loading = LAYERS * CHOSEN * 0.75 * SIZE / 31e9 * 1e12
    computing = _gap(run(*ALONE))
    lasts = _gap(run(*ALONE, given(f"{memory} B", f", prefetch: {early}")))
    assert loading > computing
    assert lasts == pytest.approx(max(computing + factor * loading, loading), rel=1e-3)


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 60])
def test_loads_are_those_that_rows_draw(nested: bool, rows: int) -> None:
    """Rows that draw experts and levels one by one ask for as many planes as is said."""
    levels = ", levels: [{bits: 2, share: 0.5}, {bits: 4, share: 0.3}, {bits: 8, share: 0.2}]"
    found = planes(given("30 MB", f"{levels}, nested: {str(nested).lower()}"))
    assert found.kept <= 30e6
    told = float((found.size @ found.needed(np.array([rows])))[0]) / LAYERS
    random, bytes_of = stream(3, "rows"), {2: SIZE / 8, 4: SIZE / 4, 8: SIZE / 2}
    drawn = []
    for _ in range(400):
        picks = random.random((rows, EXPERTS)) < CHOSEN / EXPERTS
        levels_of = random.choice([2, 4, 8], p=[0.5, 0.3, 0.2], size=(rows, EXPERTS))
        total = 0.0
        for expert in range(EXPERTS):
            asked = set(levels_of[picks[:, expert], expert].tolist())
            total += (bytes_of[max(asked)] if asked else 0.0) if nested else sum(bytes_of[bits] for bits in asked)
        drawn.append(total)
    assert told == pytest.approx(float(np.mean(drawn)), rel=0.02 + 0.06 / rows, abs=0.02 * EXPERTS * SIZE)


def test_what_is_asked_for_most_stays_the_low_bits_first() -> None:
    zipf = "+serving.experts={routing: {load: zipf, exponent: 1}}"
    levels = ", levels: [{bits: 2, share: 0.5}, {bits: 4, share: 0.5}]"
    found = planes(zipf, given("900 MB", levels))
    stays = np.array([LAYERS] * len(found.count)) - found.count
    coldest = found.asked[stays == LAYERS].min()
    assert 0 < (stays > 0).sum() < len(stays)
    # All that is asked for more than what does not fit any more stays.
    assert (stays[found.asked > found.asked[(stays > 0) & (stays < LAYERS)].max(initial=coldest)] == LAYERS).all()
    assert found.kept <= 900e6
    assert found.kept > 900e6 - 3 * SIZE


def test_more_memory_more_known_ahead_and_fewer_bits_never_hurt() -> None:
    def gap(memory: str, more: str = "") -> float:
        return _gap(run(*ALONE, "requests.count=1", given(memory, more)))

    usual = gap("2 GB", ", prefetch: 0.04")
    assert gap("4 GB", ", prefetch: 0.04") < usual < gap("2 GB", ", prefetch: 0.01")
    nested = ", prefetch: 0.04, levels: [{bits: 2, share: 0.5}, {bits: 8, share: 0.5}]"
    assert gap("2 GB", nested) < gap("2 GB", nested + ", nested: false") < usual
    assert gap("2 GB", ", prefetch: 0.04, latency: 1 ms") > usual


def test_stepwise_is_as_leaping_and_memory_is_what_is_left() -> None:
    loads = given("2 GB", ", prefetch: 0.5")
    leaping = run(*ALONE, loads).requests.finish.tolist()
    assert leaping == run(*ALONE, loads, "leap=false").requests.finish.tolist()
    service = run(*ALONE, loads)
    assert service.replicas[0].weights == pytest.approx(
        run(*ALONE).replicas[0].weights - LAYERS * EXPERTS * SIZE + 2e9, rel=1e-6
    )
    assert service.replicas[0].parts["weight loads"] > 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((MODEL, given("1 MB")), "or more"),
        ((given("1 GB"),), "no experts"),
        ((MODEL, given("1 GB", ", bandwidth: 3 GB/s")), "stand together"),
        ((MODEL, given("1 GB", ", levels: [{bits: 4, share: 0.5}, {bits: 2, share: 0.5}]")), "fewest first"),
        ((MODEL, given("1 GB", ", levels: [{bits: 4, share: 0.5}]")), "sums to 1"),
        ((MODEL, given("1 GB", ", prefetch: 1.5")), "prefetch"),
        ((MODEL, given("1 GB"), "+serving.parallel={pp: 2}"), "not simulated"),
        ((MODEL, given("1 GB"), "+serving.weights={path: host}"), "not simulated"),
        ((MODEL, given("1 GB"), "+serving.kv_cache={preemption: swap}"), "not simulated"),
    ],
)
def test_what_makes_no_sense_is_said(changes: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", FILE, "--quiet", "requests.count=5", "serving.context=4096", *changes]) == 2
    said = capsys.readouterr().err
    assert words in said and "Traceback" not in said, said
