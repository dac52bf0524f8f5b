"""Routers: who gets a request, from what the replicas show."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.random import stream
from simulator.serving.fleet.router import ROUTERS, SLACK, Choice
from tests.replicas import FINISHED, Setting, asked, run


@dataclass
class Shown:
    """What a router sees of a replica."""

    outstanding: int = 0
    queued: int = 0
    held: dict[int, int] = field(default_factory=dict)

    def tokens(self, now: int) -> int:
        return self.queued

    def cached(self, request: int) -> int:
        return self.held.get(request, 0)


def choose(name: str, *replicas: Shown, request: int = 0, choice: Choice | None = None) -> int:
    return ROUTERS.get(name)(replicas, request, choice or Choice(stream(0, "router")))  # type: ignore[arg-type]


def test_round_robin_goes_round() -> None:
    choice = Choice(stream(0, "router"))
    assert [choose("round-robin", *[Shown()] * 3, choice=choice) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


def test_random_is_even() -> None:
    choice = Choice(stream(0, "router"))
    drawn = np.bincount([choose("random", *[Shown()] * 4, choice=choice) for _ in range(4000)])
    assert drawn == pytest.approx(1000, rel=0.1)


def test_least_outstanding_counts_requests() -> None:
    assert choose("least-outstanding", Shown(3, 0), Shown(2, 99), Shown(2, 0)) == 1


@pytest.mark.parametrize("name", ["least-outstanding", "shortest-queue", "prefix-aware"])
def test_equals_take_turns(name: str) -> None:
    choice = Choice(stream(0, "router"))
    assert [choose(name, *[Shown()] * 3, choice=choice) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    busy = (Shown(), Shown(9, 9), Shown())
    assert [choose(name, *busy, choice=choice) for _ in range(4)] == [2, 0, 2, 0]


def test_equals_of_a_pair_are_taken_as_they_were_drawn() -> None:
    choice = Choice(stream(0, "router"))
    drawn = np.bincount([choose("power-of-two", *[Shown()] * 4, choice=choice) for _ in range(4000)])
    assert drawn == pytest.approx(1000, rel=0.1)


def test_one_request_at_a_time_goes_to_each_replica_in_turn() -> None:
    ran = run(asked([(100_000 * i, 20, 10) for i in range(9)]), Setting(replicas=3, router="least-outstanding"))
    assert ran.ledger.replica == [0, 1, 2] * 3


def test_shortest_queue_counts_tokens() -> None:
    assert choose("shortest-queue", Shown(0, 30), Shown(9, 20), Shown(0, 20)) == 1


def test_power_of_two_takes_the_less_busy_of_two() -> None:
    choice = Choice(stream(0, "router"))
    replicas = [Shown(busy) for busy in (5, 1, 3, 2)]
    drawn = np.bincount([choose("power-of-two", *replicas, choice=choice) for _ in range(3000)], minlength=4)
    assert drawn[0] == 0  # the busiest never wins
    assert drawn[1] == pytest.approx(1500, rel=0.1)  # in half of all pairs
    assert drawn[3] == pytest.approx(1000, rel=0.1)
    assert choose("power-of-two", Shown(7)) == 0


def test_prefix_aware_goes_where_the_prefix_is() -> None:
    assert choose("prefix-aware", Shown(0), Shown(2, held={0: 64}), Shown(1, held={0: 32})) == 1
    assert choose("prefix-aware", Shown(2), Shown(1), Shown(1)) == 1


def test_prefix_aware_leaves_a_replica_that_is_much_busier() -> None:
    assert choose("prefix-aware", Shown(0), Shown(SLACK, held={0: 64})) == 1
    assert choose("prefix-aware", Shown(0), Shown(SLACK + 1, held={0: 64}), Shown(0)) == 0


def test_prefix_aware_bears_half_more_than_the_mean() -> None:
    """10, 20 and 30 are 20 in the mean, half more is 30; with 31 it is 30.5."""
    assert choose("prefix-aware", Shown(10), Shown(20), Shown(30, held={0: 64})) == 2
    assert choose("prefix-aware", Shown(10), Shown(20), Shown(31, held={0: 64})) == 0


def test_prefix_aware_bears_a_few_requests_more_than_the_idlest_has() -> None:
    """Six replicas with 2 requests and one with 6, 4 more, though 1.5 times the mean is only 3.9."""
    assert choose("prefix-aware", *[Shown(2)] * 6, Shown(6, held={0: 64})) == 6
    assert choose("prefix-aware", *[Shown(2)] * 6, Shown(7, held={0: 64})) == 0


@pytest.mark.parametrize("name", ROUTERS.names())
def test_all_requests_are_served_and_all_replicas_work(name: str) -> None:
    rows = [(100 * i, 20, 10) for i in range(60)]
    ran = run(asked(rows), Setting(replicas=3, router=name))
    assert set(ran.ledger.status) == {FINISHED}
    assert set(ran.ledger.replica) == {0, 1, 2}


def test_prefix_aware_finds_more_than_round_robin() -> None:
    rows = [(3000 * i, 44, 2) for i in range(40)]
    prefix = [range(100 * (i * 7 % 4), 100 * (i * 7 % 4) + 10) for i in range(40)]
    cached = {
        name: sum(run(asked(rows, prefix, prefix_block=4), Setting(replicas=3, router=name, cached=True)).ledger.cached)
        for name in ("round-robin", "prefix-aware")
    }
    assert cached == {"round-robin": 28 * 40, "prefix-aware": 36 * 40}


def test_equal_replicas_share_simultaneous_requests_evenly() -> None:
    """All that ends in an instant has ended before a request of that instant is routed."""
    for name in ("least-outstanding", "shortest-queue", "round-robin"):
        ran = run(asked([(0, 10, 8)] * 30), Setting(replicas=3, router=name))
        assert np.bincount(ran.ledger.replica).tolist() == [10, 10, 10]


def test_an_unknown_router_names_the_nearest() -> None:
    with pytest.raises(InputError, match="round-robin"):
        ROUTERS.get("roundrobin")
