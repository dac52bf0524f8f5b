"""Serving as a queue whose theory is known: M/M/1, M/D/1, M/G/1, M/M/c, and Little's law.

With one place and answers of one token a replica is a single server, and its service time is the prompt's length times
10 ticks: waiting follows Pollaczek and Khinchine. With c places, iterations of equal length and geometric answers it is
c exponential servers. Seeds are fixed; 40,000 requests leave a standard error of 1 to 3 %.
"""

from heapq import heappop, heappush
from math import factorial

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.random import stream
from tests.replicas import ENDLESS, TOKENS, Price, Setting, System, asked, run

N = 40_000
MEAN = 1000
"""Tokens of a mean prompt."""
LOAD = 0.5
SINGLE = Setting("orca", budget=1 << 40, most=1, blocks=1 << 40, price=TOKENS)

Ints = NDArray[np.int64]


def poisson(gap: float, seed: int = 1) -> Ints:
    return np.cumsum(stream(seed, "arrivals").exponential(gap, N)).astype(np.int64)


def lengths(name: str) -> Ints:
    """Whole numbers of tokens with a mean of about `MEAN`."""
    random = stream(1, name)
    drawn = {
        "exponential": lambda: random.exponential(MEAN, N),
        "fixed": lambda: np.full(N, MEAN),
        "uniform": lambda: random.uniform(0, 2 * MEAN, N),
        "hyperexponential": lambda: random.exponential(np.where(random.random(N) < 0.2, 3 * MEAN, MEAN / 2)),
        "Erlang": lambda: random.gamma(3, MEAN / 3, N),
    }[name]()
    return np.maximum(np.rint(drawn), 1).astype(np.int64)


SECOND_MOMENT = {"exponential": 2.0, "fixed": 1.0, "uniform": 4 / 3, "hyperexponential": 4.0, "Erlang": 4 / 3}
"""E[S^2] / E[S]^2."""


def single(name: str) -> System:
    """A single server with Poisson arrivals."""
    arrival, prompt = poisson(10 * MEAN / LOAD), lengths(name)
    return run(asked(np.stack([arrival, prompt, np.ones(N, np.int64)], axis=1).tolist()), SINGLE)


@pytest.mark.parametrize("name", SECOND_MOMENT)
def test_waiting_of_a_single_server(name: str) -> None:
    """M/G/1: W = load / (1 - load) * E[S^2] / (2 E[S]) (Pollaczek 1930, Khinchine 1932); M/M/1 and M/D/1 among them."""
    ran = single(name)
    waits = ran.times("scheduled") - ran.times("arrival")
    exact = LOAD / (1 - LOAD) * SECOND_MOMENT[name] / 2 * 10 * MEAN
    assert waits.mean() == pytest.approx(exact, rel=0.08 if name == "hyperexponential" else 0.05)  # long ones are rare
    assert np.mean(waits == 0) == pytest.approx(1 - LOAD, rel=0.03)  # arrivals see time averages
    start = free = 0
    starts = []
    for arrival, service in zip(ran.ledger.arrival, (10 * ran.workload.prompt).tolist(), strict=True):
        start = max(arrival, free)  # Lindley's recursion
        free = start + service
        starts.append(start)
    assert ran.ledger.scheduled == starts


def test_latencies_of_m_m_1_are_exponential() -> None:
    """The time in an M/M/1 system is exponential with mean E[S] / (1 - load): its median is ln 2 times that."""
    ran = single("exponential")
    times = ran.times("finish") - ran.times("arrival")
    mean = 10 * MEAN / (1 - LOAD)
    for share in (0.1, 0.5, 0.9, 0.99):
        assert np.quantile(times, share) == pytest.approx(-np.log(1 - share) * mean, rel=0.05)


def erlang_c(servers: int, load: float) -> float:
    """Probability of waiting in M/M/c at `load` of each server (Erlang 1917)."""
    offered = servers * load
    last = offered**servers / factorial(servers) / (1 - load)
    return last / (sum(offered**k / factorial(k) for k in range(servers)) + last)


@pytest.mark.parametrize(("servers", "load", "error"), [(2, 0.6, 0.05), (4, 0.7, 0.05), (16, 0.7, 0.15)])
def test_waiting_for_one_of_several_places(servers: int, load: float, error: float) -> None:
    """M/M/c: iterations of 100 ticks, answers of 200 tokens in the mean. Who finds a free place still waits for the
    running iteration to end: half of one in the mean (0.5 of 20 to 80), which the expectation holds. At 16
    places few wait, and those together: `error` is what 20,000 requests leave."""
    step, mean = 100, 200
    arrival = poisson(step * mean / (servers * load))[: N // 2]
    output = stream(1, "outputs").geometric(1 / mean, N // 2)
    price = Price(row=0, sample=0, read=0, edge=ENDLESS, base=0, overhead=step, each=0)
    setting = Setting("orca", most=servers, blocks=1 << 40, price=price)
    ran = run(asked(np.stack([arrival, np.ones(N // 2, np.int64), output], axis=1).tolist()), setting)
    waits = (ran.times("scheduled") - ran.times("arrival")).mean() / step
    busy = 1 - empty(servers, load)
    exact = erlang_c(servers, load) * mean / (servers * (1 - load))
    assert waits == pytest.approx(exact + 0.5 * busy, rel=error)
    free, smooth = [0] * servers, 0
    for came, tokens in zip(arrival.tolist(), output.tolist(), strict=True):  # the same requests without iterations
        start = max(came, heappop(free))
        heappush(free, start + step * tokens)
        smooth += start - came
    assert waits == pytest.approx(smooth / len(arrival) / step + 0.5 * busy, rel=0.02)
    taken = ran.times("finish") - ran.times("scheduled")
    assert (taken == step * output).all()


def empty(servers: int, load: float) -> float:
    """Probability that an M/M/c system is empty."""
    offered = servers * load
    return 1 / (
        sum(offered**k / factorial(k) for k in range(servers)) + offered**servers / factorial(servers) / (1 - load)
    )


def in_system(begin: Ints, end: Ints) -> int:
    """The integral over time of how many are between begin and end, from the steps of that number."""
    moments = np.concatenate([begin, end])
    change = np.repeat([1, -1], [len(begin), len(end)])
    order = np.argsort(moments, kind="stable")
    present = np.cumsum(change[order])
    return int((present[:-1] * np.diff(moments[order])).sum())


@pytest.mark.parametrize("policy", ["orca", "vllm-v1", "sarathi", "static"])
def test_littles_law(policy: str) -> None:
    """L = rate x W in the system, the queue and the batch; what iterations say and what requests say is one number."""
    count = 2000
    random = stream(2, policy)
    rows = np.stack(
        [np.cumsum(random.exponential(3000, count)), random.integers(1, 60, count), random.integers(1, 40, count)],
        axis=1,
    ).astype(np.int64)
    ran = run(asked(rows.tolist()), Setting(policy, budget=100_000, most=16, blocks=10_000, tile=1))
    arrival, scheduled, finish = (ran.times(name) for name in ("arrival", "scheduled", "finish"))
    assert in_system(arrival, finish) == (finish - arrival).sum()
    assert in_system(arrival, scheduled) == (scheduled - arrival).sum()
    start, iterations, first, growth, decodes, _, prompts, *_ = ran.log().T
    lasts = iterations * first + growth * (iterations * (iterations - 1) // 2)
    span = int(finish.max() - arrival.min())
    rate, waiting = count / span, float((finish - arrival).mean())
    assert in_system(arrival, finish) / span == pytest.approx(rate * waiting, rel=1e-12)
    inside = int(((decodes + prompts) * lasts).sum())
    if policy != "static":  # where rows of finished members go on, and are none of the requests'
        assert inside == (finish - scheduled).sum()
    assert (start[1:] >= (start + lasts)[:-1]).all()
