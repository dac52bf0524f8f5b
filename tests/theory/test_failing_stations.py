"""Stations before and after the model whose servers fail: against queueing theory, and by hand."""

from pathlib import Path

import numpy as np
import pytest

from simulator.cli import main
from simulator.random import stream
from simulator.run.serve import serve
from simulator.serving.fleet.stations import Servers
from simulator.specs import load_scenario
from simulator.specs.distribution import Distribution
from simulator.specs.fleet import Station

SECOND = 10**12
FILE = "scenarios/serving/quickstart.yaml"


def _times(station: Station, gaps: np.ndarray, seed: int = 3) -> np.ndarray:
    """Seconds that each request spends at a station."""
    servers = Servers(station, [1] * len(gaps), seed)
    arrivals = np.cumsum(gaps * SECOND).astype(np.int64).tolist()
    return np.array([servers.done(i, now) - now for i, now in enumerate(arrivals)]) / SECOND


@pytest.mark.parametrize(("load", "up", "down"), [(0.5, 100.0, 10.0), (0.4, 20.0, 10.0)])
def test_m_m_1_with_breakdowns(load: float, up: float, down: float) -> None:
    """L = l ((f + r)^2 + m f) / ((f + r) (r m - l (f + r))), White and Christie 1958; in mean services."""
    station = Station(
        name="gateway",
        servers=1,
        time=Distribution(exponential=1.0),
        mtbf=f"{up} s",
        repair=Distribution(exponential=down),
    )
    times = _times(station, stream(1, "arrivals").exponential(1 / load, 30_000))
    f, r = 1 / up, 1 / down
    exact = load * ((f + r) ** 2 + f) / ((f + r) * (r - load * (f + r)))
    assert load * times.mean() == pytest.approx(exact, rel=0.1)
    assert exact > 1.2 * load / (1 - load)


def test_many_servers_stand_still_one_by_one() -> None:
    """Two servers, each up nine tenths of the time: hardly ever busy, a request waits only where both are down."""
    kept = {"servers": 2, "time": Distribution(fixed=0.01), "repair": Distribution(fixed=10.0)}
    times = _times(Station(name="encoder", mtbf="90 s", **kept), np.full(40_000, 1.0))
    both_down = (times > 0.5).mean()
    assert both_down == pytest.approx(0.1**2, rel=0.4)
    usual = _times(Station(name="encoder", servers=2, time=Distribution(fixed=0.01)), np.full(100, 1.0))
    assert usual == pytest.approx(np.full(100, 0.01), abs=1e-6)  # moments of arrival are rounded


def test_a_failing_station_delays_requests_and_loses_none() -> None:
    few = "requests.count=100"
    station = "{name: tokeniser, servers: 1, time: {fixed: 0.02}, mtbf: 4 s, repair: {fixed: 1}}"
    fails = serve(load_scenario(FILE, [few, f"+serving.fleet={{before: [{station}]}}"]).spec)  # type: ignore[arg-type]
    works = station.replace(", mtbf: 4 s, repair: {fixed: 1}", "")
    usual = serve(load_scenario(FILE, [few, f"+serving.fleet={{before: [{works}]}}"]).spec)  # type: ignore[arg-type]
    assert fails.metrics["completed"] == usual.metrics["completed"] == 100
    assert fails.metrics["mean_ttft_ms"] > usual.metrics["mean_ttft_ms"] + 20


@pytest.mark.parametrize(
    ("station", "words"),
    [
        ("{name: a, mtbf: 4 s}", "how many `servers`"),
        ("{name: a, servers: 1, repair: {fixed: 3}}", "write `mtbf` too"),
        ("{name: a, servers: 1, mtbf: 1 us}", "mtbf"),
        ("{name: a, servers: 200000, mtbf: 1 s}", "at most 100,000"),
    ],
)
def test_what_makes_no_sense_is_said(
    station: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", FILE, "--quiet", f"+serving.fleet={{after: [{station}]}}"]) == 2
    assert words in capsys.readouterr().err
