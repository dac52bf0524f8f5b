"""Runs whose records are not all kept have the figures of those that keep all, to the sketch's error."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator import results
from simulator.cli import main
from simulator.random import stream
from simulator.report.result.html import document
from simulator.report.result.page import page
from simulator.results import sample as sample_figures
from simulator.results.result import RequestRecords, Result
from simulator.results.serving import iterations
from simulator.results.serving.service import serving_metrics
from simulator.results.serving.sketch import ERROR, Sketch
from simulator.results.serving.totals import Totals
from simulator.results.summary import to_json
from simulator.run.serve import serve
from simulator.run.served import condense
from simulator.serving.replica import ledger
from simulator.serving.replica.ledger import open_ledger
from simulator.serving.workload.generate import NEVER
from simulator.specs import load_scenario
from tests.replicas import asked

FILE = "scenarios/serving/quickstart.yaml"
VARIANTS = {
    "plain": (),
    "two replicas, preempted": (
        "+serving.replicas=2",
        "requests.arrivals={poisson: 12 /s}",
        "+serving.kv_cache={blocks: 900}",
    ),
    "stages": ("serving={parallel: {pp: 2}, context: 16384}",),
    "apart": (
        "serving={context: 16384, pools: [{name: p, role: prefill}, {name: d, role: decode}]}",
        "requests.arrivals={poisson: 2 /s}",
    ),
    "drafts": ("+serving.speculation={kind: n-gram, draft_length: 3, acceptance: 0.5}",),
    "closed loop": ("requests.arrivals={closed_loop: {clients: 20, think: {exponential: 2}}}",),
    "turns": (
        "+serving.kv_cache={prefix_caching: block, blocks: 2000, tiers: [{name: host, capacity: 50 GB}]}",
        "+requests.sessions={turns: {uniform: [1, 4]}, think: {exponential: 5}}",
    ),
    "experts": (
        "model=models/mixtral-8x7b",
        "serving={replicas: 4, parallel: {ep: 4}, context: 16384, batching: {token_budget: 512, max_sequences: 64}}",
    ),
}


def served(mode: str, *overrides: str) -> Result:
    given = ["requests.count=600", "+slo={ttft: 1 s, tpot: 50 ms}", *overrides]
    given += [] if mode == "all" else [f"+records={mode}"]
    return serve(load_scenario(FILE, given).spec)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are given away every 128."""
    monkeypatch.setattr(condense, "ROWS", 1 << 7)
    monkeypatch.setattr(condense, "LEAST_ROWS", 1 << 7)
    monkeypatch.setattr(condense, "PART", 101)


@pytest.mark.parametrize("variant", VARIANTS)
def test_modes_agree_to_the_error_of_the_sketch(variant: str) -> None:
    whole = served("all", *VARIANTS[variant])
    for mode in ("sample", "none"):
        condensed = served(mode, *VARIANTS[variant])
        assert condensed.metrics.keys() == whole.metrics.keys()
        for name, value in whole.metrics.items():
            # Energy takes shares of links piece by piece.
            sketched = name.startswith(("median", "p9"))
            wide = ERROR * 1.0001 if sketched else 0.05 if "energy" in name else 1e-9
            assert condensed.metrics[name] == pytest.approx(value, rel=wide, nan_ok=True), name
        for one, other in zip(whole.breakdown, condensed.breakdown, strict=True):
            assert one.keys() == other.keys()
            for part, seconds in one.items():
                assert other[part] == pytest.approx(seconds, rel=1e-6, abs=1e-6), part
        assert condensed.provenance["events"] == whole.provenance["events"]


def test_quantiles_are_off_by_the_stated_error_at_most() -> None:
    random = np.random.default_rng(4)
    for draw in (
        lambda: random.lognormal(3.0, 2.0, 20_001),
        lambda: random.exponential(1e-3, 20_001),
        lambda: random.pareto(0.7, 20_001),
        lambda: np.where(random.random(20_001) < 0.3, 0.0, random.normal(50, 1, 20_001)),
    ):
        _check_quantiles(draw)


def _check_quantiles(draw: Callable[[], Any]) -> None:
    values = draw()
    sketch = Sketch()
    for part in np.array_split(values, 7):
        sketch.add(part)
    percents = (0, 1, 25, 50, 90, 95, 99, 99.9, 100)
    assert sketch.quantiles(percents) == pytest.approx(list(np.percentile(values, percents)), rel=ERROR * 1.0001)
    assert sketch.spread().mean == pytest.approx(values.mean(), rel=1e-12)
    assert sketch.spread().std == pytest.approx(values.std(), rel=1e-6)


def test_amounts_that_hardly_differ_spread_as_little_as_they_do() -> None:
    """A deviation from sums of squares was 2e-5 ms where requests of 1 s took the same time to the tick."""
    for size in (0.0, 1e-9, 1e-3):
        sketch, values = Sketch(), 1e3 + size * np.random.default_rng(5).random(20_001)
        for part in np.array_split(values, 7):
            sketch.add(part)
        assert sketch.spread().std == pytest.approx(values.std(), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_quantiles_of_few_amounts_lie_between_two_of_them(count: int) -> None:
    sketch, values = Sketch(), np.geomspace(1.0, 1e4, count)
    sketch.add(values)
    percents = (50, 90, 95, 99)
    assert sketch.quantiles(percents) == pytest.approx(list(np.percentile(values, percents)), rel=ERROR * 1.0001)


def test_counts_are_repetitions_and_nothing_is_nan() -> None:
    one, other = Sketch(), Sketch()
    one.add(np.array([1.0, 5.0, 0.0]), np.array([3, 2, 4]))
    other.add(np.repeat([1.0, 5.0, 0.0], [3, 2, 4]))
    assert one.spread() == other.spread()
    assert all(np.isnan(value) for value in (Sketch().spread().mean, *Sketch().quantiles((50,))))


def test_a_sample_is_requests_of_the_whole_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(condense, "SAMPLED", 100)
    whole, sample = served("all").service, served("sample").service
    assert whole is not None and sample is not None and sample.records == "sample"
    assert len(sample.requests.arrival) == 100
    here = np.searchsorted(whole.requests.arrival, sample.requests.arrival)
    assert len(set(here.tolist())) == 100 and (np.diff(here) > 0).all()
    for column in fields(RequestRecords):
        mine, theirs = (getattr(service.requests, column.name) for service in (sample, whole))
        assert (mine == theirs[here]).all(), column.name
    assert 25 < np.count_nonzero(here < 300) < 75  # no window at the beginning
    again = served("sample").service
    assert again is not None and (again.requests.arrival == sample.requests.arrival).all()


def test_every_request_has_the_same_chance_to_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 50 requests, 3 of which never came, 10 are drawn 400 times: each 85 times, 5 standard deviations are 41."""
    monkeypatch.setattr(condense, "SAMPLED", 10)
    book = open_ledger(asked([(7 * (i * 13 % 50) + 1, 9, 3) for i in range(50)]))
    for request in (0, 20, 49):
        book.arrival[request] = NEVER
    counts = np.zeros(50, np.int64)
    for seed in range(400):
        taken = condense.Condensing(book, (), (), True, Totals(0), stream(seed, "records"))
        drawn = taken.sampled()
        assert len(set(drawn.tolist())) == 10
        assert (np.diff(np.array(book.arrival)[drawn]) > 0).all()
        counts[drawn] += 1
    assert (counts[[0, 20, 49]] == 0).all()
    assert (np.abs(np.delete(counts, [0, 20, 49]) - 4000 / 47) < 41).all()


def test_gaps_of_a_sample_are_those_of_the_whole_run_to_the_error_of_the_sketch() -> None:
    whole, sample = served("all").service, served("sample").service
    assert whole is not None and sample is not None
    assert sample.gaps.count.sum() == whole.gaps.count.sum()
    order = np.argsort(whole.gaps.gap)
    every = np.repeat(whole.gaps.gap[order], whole.gaps.count[order])
    kept = np.repeat(sample.gaps.gap, sample.gaps.count)
    assert (np.abs(kept - every) <= 1.0001 * ERROR * every + 1).all()


def test_iterations_of_a_sample_are_the_first_ones() -> None:
    whole, sample = served("all").service, served("sample").service
    assert whole is not None and sample is not None
    rows = sample.replicas[0].iterations
    assert len(rows.count) == 128
    assert (rows.start == whole.replicas[0].iterations.start[:128]).all()
    assert (rows.mean_blocks == whole.replicas[0].iterations.mean_blocks[:128]).all()


def test_gaps_in_parts_are_all_gaps_and_their_figures_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    service = served("all", "+serving.replicas=2").service
    assert service is not None
    plain = serving_metrics(service)
    monkeypatch.setattr(iterations, "PART", 300)
    parts = list(service.gaps.parts())
    assert len(parts) > 3
    for name in ("gap", "count"):
        whole = np.concatenate([getattr(part, name) for part in parts])
        assert (np.sort(whole) == np.sort(getattr(service.gaps, name))).all()
    monkeypatch.setattr("simulator.results.serving.service.MOST_GAPS", 100)
    monkeypatch.setattr(sample_figures, "BINS", 64)
    assert serving_metrics(service) == pytest.approx(plain, rel=1e-12)
    exact = [name for name in plain if name.endswith("_itl_ms") and name[0] == "p"]
    assert exact and all(serving_metrics(service)[name] == plain[name] for name in exact)


def test_columns_of_many_requests_are_arrays_with_the_same_times(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = served("all")
    monkeypatch.setattr(ledger, "MANY", 10)
    arrays = served("all")
    assert lists.metrics == arrays.metrics
    for variant in ("apart", "turns", "closed loop"):
        monkeypatch.setattr(ledger, "MANY", 10)
        few = served("sample", *VARIANTS[variant])
        monkeypatch.setattr(ledger, "MANY", 1 << 40)
        assert few.metrics == served("sample", *VARIANTS[variant]).metrics


@pytest.mark.parametrize("mode", ["sample", "none"])
def test_pages_files_and_documents_of_such_runs(mode: str, tmp_path: Path) -> None:
    result = served(mode)
    assert f"records: {mode}" in page(result)
    assert "of the whole run" in document(result)
    told = results.to_json(result)["service"]
    assert told["records"] == mode and told["request_time_s"] == {}
    results.save(result, tmp_path / "a.result")
    again = results.read(tmp_path / "a.result")
    assert again.service is not None and again.service.records == mode
    assert again.metrics == pytest.approx(result.metrics, nan_ok=True)


@pytest.mark.parametrize("mode", ["sample", "none"])
def test_commands_take_such_runs(mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["requests.count=100", f"+records={mode}"]
    files = [
        "--json",
        str(tmp_path / "a.json"),
        "--html",
        str(tmp_path / "a.html"),
        "--trace",
        str(tmp_path / "a.trace"),
    ]
    assert main(["run", FILE, "--quiet", *given, *files]) == 0
    assert main(["plan", FILE, "--quiet", *given, "+slo={ttft: 2 s, tpot: 200 ms}"]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_a_word_that_is_no_mode_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", FILE, "--quiet", "requests.count=10", "+records=some"]) == 2
    assert "did you mean `sample`" in capsys.readouterr().err
    assert main(["run", "scenarios/quickstart.yaml", "--quiet", "+records=none"]) == 2
    assert "only a scenario that serves" in capsys.readouterr().err


def test_shares_of_tiers_are_those_of_all_requests_whatever_is_kept() -> None:
    found = [to_json(served(mode, *VARIANTS["turns"], "requests.count=100"))["service"] for mode in ("all", "none")]
    rates = [one["cache_tiers"][0]["hit_rate"] for one in found]
    assert rates[1] == pytest.approx(rates[0]) and 0 < rates[0] < 1
