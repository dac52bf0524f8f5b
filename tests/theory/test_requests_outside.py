"""Time that requests spend outside of the engine: TTFT grows by it, a closed loop turns as much slower."""

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.run.serve import run_serving
from simulator.specs import load_spec
from simulator.specs.base import Figure
from simulator.specs.distribution import Distribution
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Arrivals, ClosedLoop, Lengths, Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Serving, ServingStack

Floats = NDArray[np.float64]


def scenario(outside: float, token: float, **arrivals: object) -> ServingScenario:
    stack = load_spec(ServingStack, "vllm").model_copy(
        update={"request_overhead": figure(outside), "prompt_overhead": figure(token)}
    )
    lengths = Lengths(prompt=Distribution(fixed=1000), output=Distribution(fixed=50))
    return ServingScenario(
        version=1,
        name="x",
        cluster=load_spec(Cluster, "dgx-h100"),
        model=load_spec(Model, "llama-3-8b"),
        stack=stack,
        serving=Serving(),
        requests=Requests(arrivals=Arrivals.model_validate(arrivals), count=6, lengths=lengths),
    )


def figure(value: float) -> Figure[float]:
    return Figure[float](value=value, status="estimate", source="a test")


def moments(found: ServingScenario, leap: bool = True) -> tuple[Floats, Floats, Floats]:
    """Seconds at which requests are asked for, get their first token, and end."""
    ledger = run_serving(found, leap=leap).ledger
    asked, first, end = (np.array(column) * 1e-12 for column in (ledger.arrival, ledger.first_token, ledger.finish))
    return asked, first, end


@pytest.mark.parametrize("leap", [True, False])
def test_one_client_waits_for_each_request_outside(leap: bool) -> None:
    """6 requests one after the other: 20 ms and 1,000 tokens of 5 us each, before the first token of each."""
    loop = {"closed_loop": ClosedLoop(clients=1)}
    plain, outside = (moments(scenario(*times, **loop), leap) for times in ((0.0, 0.0), (20e-3, 5e-6)))
    assert outside[1] - outside[0] == pytest.approx(plain[1] - plain[0] + 25e-3, abs=1e-9)
    assert outside[2] - outside[1] == pytest.approx(plain[2] - plain[1], abs=1e-9)
    assert outside[2][-1] - plain[2][-1] == pytest.approx(6 * 25e-3, abs=1e-9)


def test_an_offline_batch_is_at_the_engine_at_once() -> None:
    plain, outside = (moments(scenario(*times, at_once=True)) for times in ((0.0, 0.0), (20e-3, 5e-6)))
    assert outside[2].tolist() == plain[2].tolist()
