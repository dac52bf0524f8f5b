"""Closed loops: N clients, each of whom waits for the answer and thinks, obey the interactive response time law.

Over a window in which every client either waits for an answer or thinks, N = X (R + Z) with the throughput X, the mean
response time R and the mean time of thinking Z (Denning and Buzen, 1978). It holds whatever happens in between: front
ends, looks for requests, iterations fixed ahead, places that are fewer than the clients.
"""

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.run.serve import run_serving
from simulator.serving.workload.generate import generate
from simulator.specs import load_spec
from simulator.specs.base import Figure
from simulator.specs.distribution import Distribution
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Arrivals, ClosedLoop, Lengths, Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, Serving, ServingStack

Ints = NDArray[np.int64]
THINK = 0.5


def figure(value: float) -> Figure[float]:
    return Figure[float](value=value, status="estimate", source="a test")


def scenario(clients: int, think: float, count: int, **batching: object) -> ServingScenario:
    outside = {"request_overhead": figure(10e-3), "request_handling": figure(1e-3), "prompt_overhead": figure(1e-6)}
    loop = ClosedLoop(clients=clients, think=Distribution(fixed=think) if think else None)
    lengths = Lengths(prompt=Distribution(uniform=(200, 2000)), output=Distribution(uniform=(50, 200)))
    return ServingScenario(
        version=1,
        name="x",
        cluster=load_spec(Cluster, "dgx-h100"),
        model=load_spec(Model, "llama-3-8b"),
        stack=load_spec(ServingStack, "sglang").model_copy(update=outside),
        serving=Serving(batching=Batching.model_validate(batching)),
        requests=Requests(arrivals=Arrivals(closed_loop=loop), count=count, lengths=lengths),
    )


def moments(found: ServingScenario, leap: bool = True) -> tuple[Ints, Ints, Ints]:
    """Ticks at which requests are asked for, get their first token, and end, in the order of arrival."""
    ledger = run_serving(found, leap=leap).ledger
    arrival, first, finish = (
        np.array(column, np.int64) for column in (ledger.arrival, ledger.first_token, ledger.finish)
    )
    order = np.argsort(arrival, kind="stable")
    return arrival[order], first[order], finish[order]


@pytest.mark.parametrize("think", [0.0, THINK])
@pytest.mark.parametrize(
    "batching", [{}, {"poll_interval": 30}, {"max_sequences": 5}, {"policy": "vllm-v1"}, {"policy": "guaranteed"}]
)
def test_interactive_response_time_law(batching: dict[str, object], think: float) -> None:
    clients, count = 12, 400
    arrival, _, finish = moments(scenario(clients, think, count, **batching))
    begin, end = arrival[:clients].max(), arrival[-1]  # from then on one client after the other has nothing to ask
    pause = round(think * 1e12)
    # Exactly: what clients spend on waiting and thinking in the window is all of their time in it.
    waited = np.clip(finish, begin, end) - np.clip(arrival, begin, end)
    thought = np.clip(finish + pause, begin, end) - np.clip(finish, begin, end)
    first = np.clip(arrival[:clients], begin, end) - begin if think else np.zeros(1, np.int64)
    assert waited.sum() + thought.sum() + first.sum() == clients * (end - begin)
    # And as it is used, with what ends in the window.
    inside = (finish > begin) & (finish <= end)
    throughput = inside.sum() / (end - begin)
    response = (finish - arrival)[inside].mean()
    assert throughput * (response + pause) == pytest.approx(clients, rel=0.03)


def test_all_slots_are_taken_between_first_and_last_wave() -> None:
    arrival, _, finish = moments(scenario(8, 0.0, 80))
    for tick in np.linspace(arrival[7], arrival[-1] - 1, 50).astype(np.int64):
        assert ((arrival <= tick) & (finish > tick)).sum() == 8


def with_rate(clients: int, rate: float, count: int) -> ServingScenario:
    found = scenario(clients, 0.0, count)
    loop = ClosedLoop.model_validate({"clients": clients, "rate": f"{rate} /s"})
    return found.model_copy(
        update={"requests": found.requests.model_copy(update={"arrivals": Arrivals(closed_loop=loop)})}
    )


def test_a_rate_is_the_least_of_what_clients_and_places_allow() -> None:
    """Slow: requests come as of an open loop. Fast: all places are taken once they have filled up, one by one."""
    arrival, _, _ = moments(with_rate(64, 2.0, 60))
    assert arrival.tolist() == (np.sort(generate(with_rate(64, 2.0, 60).requests, 0).due)).tolist()
    arrival, _, finish = moments(with_rate(8, 50.0, 80))
    assert np.ptp(arrival[:8]) > 0.05e12
    for tick in np.linspace(arrival[7], arrival[-1] - 1, 50).astype(np.int64):
        assert ((arrival <= tick) & (finish > tick)).sum() == 8


@pytest.mark.parametrize("batching", [{}, {"poll_interval": 10}, {"policy": "guaranteed", "wait_iterations": 20}])
def test_fast_forward_changes_nothing(batching: dict[str, object]) -> None:
    for one, other in zip(*(moments(scenario(6, 0.0, 60, **batching), leap) for leap in (True, False)), strict=True):
        assert one.tolist() == other.tolist()


def test_one_client_waits_half_of_the_interval_between_looks() -> None:
    """A client alone meets an idle engine; of many, each waits some half of 30 decode iterations longer."""
    alone = [moments(scenario(1, 0.0, 20, poll_interval=every)) for every in (1, 30)]
    assert alone[0][1].tolist() == alone[1][1].tolist()
    plain, polled = (moments(scenario(8, 0.0, 400, poll_interval=every)) for every in (1, 30))
    step = np.median((polled[2] - polled[1]) / 125)
    longer = (polled[1] - polled[0]).mean() - (plain[1] - plain[0]).mean()
    assert longer == pytest.approx(15 * step, rel=0.35)


def test_iterations_that_are_scheduled_at_once_share_the_host() -> None:
    """Ten at once wait for it a tenth as long, and requests for five of them on average."""
    slow = {"iteration_overhead": figure(5e-3), "sequence_overhead": figure(0.0), "schedules_ahead": False}
    usual = scenario(1, 0.0, 20).stack.model_copy(update=slow)
    each, shared = (
        moments(scenario(1, 0.0, 20, decode_steps=steps).model_copy(update={"stack": usual})) for steps in (1, 10)
    )
    answers = generate(scenario(1, 0.0, 20).requests, 0).output
    per_token = ((each[2] - each[1]) - (shared[2] - shared[1])).sum() / (np.array(answers) - 1).sum()
    assert per_token == pytest.approx(4.5e-3 * 1e12, rel=1e-6)
    plain, several = (moments(scenario(8, 0.0, 400, decode_steps=steps, policy="vllm-v1")) for steps in (1, 10))
    step = np.median((several[2] - several[1]) / 125)
    longer = (several[1] - several[0]).mean() - (plain[1] - plain[0]).mean()
    assert longer == pytest.approx(5 * step, rel=0.5)
