"""Routers with state: who stays where, what moves when a replica leaves, and what that finds in the caches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from simulator.random import stream
from simulator.serving.fleet.router import ROUTERS, Choice
from simulator.serving.fleet.sticky import BOUND
from simulator.specs.fleet import Fleet as Rules
from tests.fleets import ran
from tests.replicas import FINISHED, Setting, asked


@dataclass
class Shown:
    """What a router sees of a replica."""

    number: int
    outstanding: int = 100

    def tokens(self, now: int) -> int:
        return 0


def homes(name: str, replicas: Sequence[Shown], choice: Choice, requests: Sequence[int]) -> list[int]:
    """Numbers of the replicas that requests are sent to."""
    router = ROUTERS.get(name)
    return [replicas[router(replicas, request, choice)].number for request in requests]  # type: ignore[arg-type]


def test_turns_of_a_conversation_stay_where_it_began() -> None:
    busy = np.random.default_rng(3)
    replicas = [Shown(number) for number in range(4)]
    choice = Choice(stream(0, "router"), session=[*range(20), *range(20), *range(20), -1])
    first = homes("session", replicas, choice, range(20))
    assert set(first) == {0, 1, 2, 3}
    for replica in replicas:
        replica.outstanding = int(busy.integers(200))
    assert homes("session", replicas, choice, range(20, 40)) == first
    least = min(replicas, key=lambda one: one.outstanding)
    assert homes("session", replicas, choice, [60]) == [least.number]  # of no conversation


def test_conversations_of_a_replica_that_left_settle_on_others_and_no_others_move() -> None:
    replicas = [Shown(number) for number in range(4)]
    choice = Choice(stream(0, "router"), session=[*range(20)] * 4)
    first = homes("session", replicas, choice, range(20))
    left = [replica for replica in replicas if replica.number != 2]
    second = homes("session", left, choice, range(20, 40))
    assert all(now == before if before != 2 else now != 2 for before, now in zip(first, second, strict=True))
    assert homes("session", replicas, choice, range(40, 60)) == second  # also when the replica is back


def test_a_ring_moves_only_the_keys_of_a_replica_that_left() -> None:
    replicas = [Shown(number) for number in range(5)]
    choice = Choice(stream(0, "router"), session=[*range(1000)])
    first = homes("consistent-hash", replicas, choice, range(1000))
    shares = np.bincount(first, minlength=5) / 1000
    assert shares.min() > 0.1 and shares.max() < 0.35  # 64 points a replica: 0.2, give or take an eighth
    choice.version += 1
    second = homes("consistent-hash", [one for one in replicas if one.number != 3], choice, range(1000))
    moved = [before for before, now in zip(first, second, strict=True) if before != now]
    assert moved == [3] * first.count(3) and 3 not in second
    choice.version += 1
    assert homes("consistent-hash", replicas, choice, range(1000)) == first


def test_a_replica_with_more_than_its_bound_takes_nothing_and_its_keys_go_on_along_the_ring() -> None:
    replicas = [Shown(number) for number in range(5)]
    choice = Choice(stream(0, "router"), session=[*range(300)])
    first = homes("consistent-hash", replicas, choice, range(300))
    replicas[1].outstanding = 140
    assert BOUND * 541 / 5 < 141
    second = homes("consistent-hash", replicas, choice, range(300))
    assert 1 not in second
    assert all(now == before for before, now in zip(first, second, strict=True) if before != 1)


def test_what_is_hashed_is_the_conversation_or_the_first_block_or_the_request() -> None:
    replicas = [Shown(number) for number in range(6)]
    prefix = [(number // 10, 1000 + number) for number in range(200)]
    by_block = homes("consistent-hash", replicas, Choice(stream(0, "router"), prefix=prefix), range(200))
    assert all(len(set(by_block[i : i + 10])) == 1 for i in range(0, 200, 10)) and len(set(by_block)) > 3
    talks = Choice(stream(0, "router"), prefix=prefix, session=[number % 5 for number in range(200)])
    by_talk = homes("consistent-hash", replicas, talks, range(200))
    assert by_talk == by_talk[:5] * 40
    assert len(set(homes("consistent-hash", replicas, Choice(stream(0, "router")), range(200)))) == 6


def hits(router: str) -> tuple[int, int]:
    """(tokens that caches held, the same counted from where each request went): 90 prompts one after the other, of 10
    documents of 40 tokens and 8 of their own, over 3 replicas with room for all."""
    rng = np.random.default_rng(7)
    of = rng.integers(10, size=90).tolist()
    chains = [(*range(100 * one, 100 * one + 10), 10_000 + 2 * i, 10_001 + 2 * i) for i, one in enumerate(of)]
    rows = [(5_000 * i, 48, 2) for i in range(90)]
    setting = Setting(replicas=3, router=router, cached=True)
    made = ran(asked(rows, chains, prefix_block=4), setting, Rules())
    assert set(made.ledger.status) == {FINISHED}
    assert all(end < begin for end, begin in zip(made.ledger.finish, made.ledger.arrival[1:], strict=False))
    seen: list[set[int]] = [set(), set(), set()]
    counted = 0
    for chain, home in zip(chains, made.ledger.replica, strict=True):
        found = next((i for i, identity in enumerate(chain) if identity not in seen[home]), len(chain))
        counted += 4 * min(found, 47 // 4)
        seen[home] |= set(chain)
    return sum(made.ledger.cached), counted


def test_following_equal_prefixes_finds_more_than_going_round() -> None:
    round_robin, counted = hits("round-robin")
    assert round_robin == counted
    aware, counted = hits("cache-aware")
    assert aware == counted
    assert aware == 40 * 80  # all but the first prompt of each document
    assert round_robin < 0.85 * aware


def test_following_a_prefix_ends_where_loads_differ_much() -> None:
    replicas = [Shown(number, 0) for number in range(3)]
    choice = Choice(stream(0, "router"), prefix=[(1, 2, 3, 4)] * 5)
    (home,) = homes("cache-aware", replicas, choice, [0])
    replicas[home].outstanding = 32
    assert homes("cache-aware", replicas, choice, [1]) == [home]
    replicas[home].outstanding = 33
    (other,) = homes("cache-aware", replicas, choice, [2])
    assert other != home
    replicas[other].outstanding = 20
    assert homes("cache-aware", replicas, choice, [3]) == [other]  # where it went last


@pytest.mark.parametrize("name", ["session", "consistent-hash", "cache-aware"])
def test_without_conversations_and_prefixes_all_replicas_work(name: str) -> None:
    made = ran(asked([(100 * i, 20, 10) for i in range(60)]), Setting(replicas=3, router=name), Rules())
    assert set(made.ledger.replica) == {0, 1, 2}
