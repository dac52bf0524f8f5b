"""The shipped length distributions: all say where they come from; fitted ones match their trace where it is there."""

from pathlib import Path

import numpy as np
import pytest

from simulator.calibration.lengths import FITTED, QUOTED, points, spearman
from simulator.interop.traces import TraceColumns, read
from simulator.serving.workload.lengths import lengths
from simulator.specs import load_spec, names
from simulator.specs.distribution import Distribution
from simulator.specs.requests import Lengths

TRACES = Path(__file__).parents[5] / "shared" / "data" / "traces"
DRAWS = 100_000
PUBLISHED = {
    "sharegpt": (755.5, 200.3),
    "sharegpt-clients": (215.2, 195),
    "humaneval": (171.3, 98.2),
    "longbench": (1738.3, 90.7),
    "lmsys-chat": (102, 222),
    "sharegpt-nanoflow": (246, 322),
    "splitwise": (1155, 211),
    "fastgen-1200-128": (1200, 128),
    "fastgen-2600-60": (2600, 60),
    "alpaca": (19.31, 58.45),
    "random-sglang": (512.5, 512.5),
    "random-vllm": (1024, 128),
    "sonnet": (550, 150),
}
"""Means as published."""
MEDIANS = {"arxiv-summarization": (7059, 208), "openchat-sharegpt4": (1730, 415)}
"""Medians as published, of lengths whose means are not."""
SPREADS = {"lmsys-chat": (169, 210), "sharegpt-nanoflow": (547, 244), "splitwise": (1109, 163)}
"""Standard deviations as published."""


@pytest.mark.parametrize("name", names(Lengths))
def test_every_one_says_what_it_is_and_where_it_comes_from(name: str) -> None:
    given = load_spec(Lengths, name)
    assert given.name
    assert len(given.source) > 40
    prompt, output = lengths(given, 1000, 1)
    assert prompt.min() >= 1
    assert output.min() >= 1
    known = {*FITTED, *PUBLISHED, *MEDIANS, "burstgpt"}
    assert name in known


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_means_are_met(name: str) -> None:
    drawn = lengths(load_spec(Lengths, name), DRAWS, 1)
    assert [column.mean() for column in drawn] == pytest.approx(PUBLISHED[name], rel=0.02)
    if name in SPREADS:
        assert [column.std() for column in drawn] == pytest.approx(SPREADS[name], rel=0.05)


@pytest.mark.parametrize("name", MEDIANS)
def test_published_medians_are_met(name: str) -> None:
    drawn = lengths(load_spec(Lengths, name), DRAWS, 1)
    assert [np.median(column) for column in drawn] == pytest.approx(MEDIANS[name], rel=0.02)


def trace_of(name: str) -> TraceColumns:
    """The trace of a fit."""
    path = TRACES / FITTED[name].file
    if not path.exists():
        pytest.skip("the trace is not here")
    return read(path)


@pytest.mark.parametrize("name", FITTED)
def test_fits_match_their_trace(name: str) -> None:
    trace, given = trace_of(name), load_spec(Lengths, name)
    check(given.prompt, trace.prompt)
    check(given.output, trace.output)


def check(given: Distribution, recorded: np.ndarray) -> None:
    """Mean and quoted quantiles within 1 %, without the noise of draws."""
    values, shares = np.array(given.cdf).T
    mean = float(np.sum(np.diff(shares) * (values[1:] + values[:-1]) / 2))
    assert mean == pytest.approx(recorded.mean(), rel=0.01)
    wanted = np.quantile(recorded, QUOTED, method="inverted_cdf")
    assert np.interp(QUOTED, shares, values) == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize("name", FITTED)
def test_draws_from_fits_match_their_trace(name: str) -> None:
    trace = trace_of(name)
    drawn = lengths(load_spec(Lengths, name), DRAWS, 1)
    for column, recorded in zip(drawn, (trace.prompt, trace.output), strict=True):
        noise = 4 * recorded.std() / DRAWS**0.5
        assert column.mean() == pytest.approx(recorded.mean(), rel=0.01, abs=noise)
        for share in QUOTED:  # a quantile is as good as its share; 4 standard deviations
            error = 4 * (share * (1 - share) / DRAWS) ** 0.5 + 0.001
            low, high = np.quantile(recorded, np.clip([share - error, share + error], 0, 1), method="inverted_cdf")
            assert 0.99 * low - 1 <= np.quantile(column, share) <= 1.01 * high + 1
    assert spearman(*drawn) == pytest.approx(spearman(trace.prompt, trace.output), abs=0.015)


def test_a_fit_passes_through_the_quoted_quantiles_and_both_ends() -> None:
    values = np.random.default_rng(1).geometric(0.01, 5000)
    found = points(values)
    assert len(found) == 40
    assert found[0] == (values.min() - 0.5, 0)
    assert found[-1] == (values.max() + 0.5, 1)
    edges, shares = np.array(found).T
    for share in QUOTED:
        assert np.interp(share, shares, edges) == pytest.approx(np.quantile(values, share), abs=1)
