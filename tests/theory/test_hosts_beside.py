"""A host that works beside its device: an iteration lasts as long as the longer of the two."""

import pytest

from simulator.errors import InputError
from simulator.serving.costs.iteration import host_seconds
from simulator.specs import load_scenario, load_spec
from simulator.specs.base import Figure
from simulator.specs.serving import ServingStack
from simulator.specs.speculation import Speculation
from tests.replicas import ENDLESS, Price, Setting, asked, check, run

ALONE = {"row": 10, "sample": 0, "read": 1, "base": 0, "edge": ENDLESS, "overhead": 0, "each": 0}
MANY = [(150 * i, 5 + i % 40, 2 + 7 * i % 90) for i in range(60)]
DRAFTS = Speculation(kind="n-gram", draft_length=3, acceptance=0.6)


@pytest.mark.parametrize("leap", [True, False])
def test_an_iteration_lasts_as_long_as_the_longer_of_the_two(leap: bool) -> None:
    """One request of 100 tokens: iteration j of its answer takes the device 10 + 100 + j ticks, the host 160."""
    done = run(asked([(0, 100, 201)]), Setting(price=Price(**ALONE, beside=(150, 10))), fast_forward=leap)
    check(done)
    lasts = done.ledger.finish[0] - done.ledger.first_token[0]
    assert lasts == sum(max(10 + 100 + j, 160) for j in range(1, 201))
    (replica,) = done.replicas
    assert replica.record.hosted == sum(max(160 - 110 - j, 0) for j in range(1, 201))


@pytest.mark.parametrize("drafts", [None, DRAFTS])
@pytest.mark.parametrize("sharers", [1, 2])
def test_fast_forward_changes_nothing(sharers: int, drafts: Speculation | None) -> None:
    price = Price(speculation=drafts, beside=(300, 20), launched=700)
    setting = Setting(price=price, replicas=2, sharers=sharers, blocks=200, budget=200)
    one, other = (run(asked(MANY), setting, fast_forward=leap) for leap in (True, False))
    assert one.ledger.first_token == other.ledger.first_token
    assert one.ledger.finish == other.ledger.finish
    plain = run(
        asked(MANY), Setting(price=Price(speculation=drafts), replicas=2, sharers=sharers, blocks=200, budget=200)
    )
    assert max(plain.ledger.finish) < max(one.ledger.finish)
    assert [r.record.hosted for r in one.replicas] == [r.record.hosted for r in other.replicas]


def test_a_host_prepares_and_then_launches() -> None:
    """An iteration with prompts waits for both, one of decodes for the preparation alone."""
    price = Price(**ALONE, beside=(5000, 0), launched=3000)
    done = run(asked([(0, 100, 3)]), Setting(price=price, budget=200))
    assert done.ledger.first_token == [8000]
    assert done.ledger.finish == [8000 + 2 * 5000]


def test_packets_and_drafts_of_a_stack() -> None:
    figure = Figure[float](value=60e-6, status="estimate", source="a test")
    stack = load_spec(ServingStack, "vllm").model_copy(update={"stream_overhead": figure, "verify_overhead": figure})
    own = stack.iteration_overhead.value, stack.sequence_overhead.value
    assert host_seconds(stack, None, 1) == (own, (0.0, 60e-6))
    assert host_seconds(stack, DRAFTS, 20) == ((own[0], own[1] + 60e-6), (0.0, 3e-6))


@pytest.mark.parametrize(
    "change", ["+serving.stream_interval=0", "+stack.stream_overhead=3", "+serving.batching.balance_iterations=-1"]
)
def test_what_cannot_be_is_refused(change: str) -> None:
    with pytest.raises(InputError, match=change[1:].split("=")[0]):
        load_scenario("serving/quickstart", [change])
