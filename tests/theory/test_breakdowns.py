"""Queues whose servers break down, several stations of servers, Erlang's losses: what a fleet is in theory.

A replica with one place and answers of one token is a single server: 10 ticks a token of the prompt.
"""

import numpy as np
import pytest

from simulator.random import stream
from simulator.specs.distribution import Distribution
from simulator.specs.fleet import Admission, Failures, Fleet, Station
from tests.fleets import ran
from tests.replicas import TOKENS, Setting, asked
from tests.theory.test_queues import erlang_c

N = 40_000
UNIT = 1_000_000
"""Tokens of a mean prompt: 10 microseconds."""
MEAN = 10 * UNIT
"""Ticks of a mean service."""
SECOND = 10**12
SINGLE = Setting("orca", budget=1 << 60, most=1, blocks=1 << 60, price=TOKENS)


def requests(load: float, seed: int = 1, count: int = N) -> list[list[int]]:
    """Poisson arrivals of exponential work."""
    arrival = np.cumsum(stream(seed, "arrivals").exponential(MEAN / load, count)).astype(np.int64)
    prompt = np.maximum(np.rint(stream(seed, "work").exponential(UNIT, count)), 1).astype(np.int64)
    return np.stack([arrival, prompt, np.ones(count, np.int64)], axis=1).tolist()


@pytest.mark.parametrize(("load", "up", "down"), [(0.5, 100.0, 10.0), (0.4, 20.0, 10.0), (0.6, 40.0, 4.0)])
def test_m_m_1_with_breakdowns(load: float, up: float, down: float) -> None:
    """L = l ((f + r)^2 + m f) / ((f + r) (r m - l (f + r))): arrivals l, service m, failures f (busy or idle), repairs
    r, preemptive resume (White and Christie 1958; Avi-Itzhak and Naor 1963). `up` and `down` are in mean services."""
    rules = Failures(
        mtbf=f"{up * MEAN / SECOND} s", repair=Distribution(exponential=down * MEAN / SECOND), requests="resume"
    )
    done = ran(asked(requests(load)), SINGLE, Fleet(failures=rules))
    times = done.times("finish") - done.times("arrival")
    arrivals, m, f, r = load, 1.0, 1 / up, 1 / down
    exact = arrivals * ((f + r) ** 2 + m * f) / ((f + r) * (r * m - arrivals * (f + r)))
    simulated = arrivals * times.mean() / MEAN
    assert simulated == pytest.approx(exact, rel=0.1)
    assert simulated > 1.2 * arrivals / (1 - arrivals)  # what it would be without them


def test_preemptive_resume_by_lindley() -> None:
    """The same requests and the same outages, one after the other by hand: equal to the tick."""
    rules = Failures(
        mtbf=f"{30 * MEAN / SECOND} s", repair=Distribution(exponential=8 * MEAN / SECOND), requests="resume"
    )
    rows = requests(0.5, count=3000)
    done = ran(asked(rows), SINGLE, Fleet(failures=rules))
    operations = done.fleet.operations
    assert operations is not None and operations.breakdowns is not None
    outages = [(start, until) for _, start, until, _ in operations.breakdowns.log]
    assert len(outages) > 50
    free, finish = 0, []
    for arrival, prompt, _ in rows:
        now, left = max(arrival, free), 10 * prompt
        while left:
            standing = next((until for start, until in outages if start <= now < until), None)
            if standing is not None:
                now = standing
                continue
            following = min((start for start, _ in outages if start > now), default=1 << 62)
            step = min(left, following - now)
            now, left = now + step, left - step
        free = now
        finish.append(now)
    assert done.ledger.finish == finish


@pytest.mark.parametrize(("servers", "load"), [(1, 0.6), (3, 0.7), (6, 0.7)])
def test_waiting_before_a_station_of_servers(servers: int, load: float) -> None:
    """M/M/c before a model that takes next to nothing (Erlang 1917)."""
    count = 60_000
    arrival = np.cumsum(stream(3, "arrivals").exponential(1e9 / (servers * load), count)).astype(np.int64)
    rows = np.stack([arrival, np.ones(count, np.int64), np.ones(count, np.int64)], axis=1).tolist()
    station = Station(name="tokeniser", servers=servers, time=Distribution(exponential=1e-3))
    wide = Setting("orca", budget=1 << 60, most=1 << 20, blocks=1 << 60, price=TOKENS)
    done = ran(asked(rows), wide, Fleet(before=(station,)))
    operations = done.fleet.operations
    assert operations is not None and operations.before is not None
    waited = operations.before.stations[0].waited / count / 1e9
    exact = erlang_c(servers, load) / (servers * (1 - load))
    assert waited == pytest.approx(exact, rel=0.08)


@pytest.mark.parametrize(("places", "offered"), [(1, 0.5), (4, 3.0), (10, 8.0)])
def test_losses_of_a_full_fleet_are_erlangs(places: int, offered: float) -> None:
    """M/M/c/c: `c` single servers and nobody may wait; the share turned away is Erlang's B."""
    count = 40_000
    rows = requests(offered, seed=5, count=count)
    setting = Setting("orca", budget=1 << 60, most=1, blocks=1 << 60, price=TOKENS, replicas=places)
    setting = Setting(**{**_fields(setting), "router": "least-outstanding"})
    done = ran(asked(rows), setting, Fleet(admission=Admission(outstanding=places)))
    operations = done.fleet.operations
    assert operations is not None
    blocking = 1.0
    for server in range(1, places + 1):
        blocking = offered * blocking / (server + offered * blocking)
    assert operations.ended[1] / count == pytest.approx(blocking, rel=0.05)
    assert operations.ended[0] + operations.ended[1] == count


def _fields(setting: Setting) -> dict[str, object]:
    return {name: getattr(setting, name) for name in setting.__dataclass_fields__}
