"""Memories of blocks against lists that are searched from end to end."""

from collections.abc import Sequence

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.serving.tiers.eviction import EVICTIONS
from simulator.serving.tiers.path import Lane, path
from simulator.serving.tiers.store import empty


def reference(kind: str, capacity: int, stream: Sequence[int]) -> int:
    """Hits of a memory that is asked for one block after the other and then holds it, counted with plain lists."""
    held: list[int] = []
    uses: dict[int, int] = {}
    hits = 0
    for block in stream:
        if block in held:
            hits += 1
            uses[block] += 1
            if kind != "fifo":
                held.append(held.pop(held.index(block)))
            continue
        if len(held) == capacity:
            gone = min(held, key=lambda one: (uses[one], held.index(one))) if kind == "lfu" else held[0]
            held.remove(gone)
        held.append(block)
        uses[block] = 1
    return hits


@pytest.mark.parametrize("kind", ["lru", "lfu", "fifo"])
@pytest.mark.parametrize("capacity", [1, 7, 40])
def test_hits_are_those_of_an_independent_count(kind: str, capacity: int) -> None:
    stream = (np.random.default_rng(capacity).zipf(1.3, 3000) % 200).tolist()
    store, hits = empty("host", capacity, False, kind), 0
    for block in stream:
        hits += block in store.held
        store.use((block,))
        if block not in store.held:
            store.put((block,))
        assert len(store.held) <= capacity
    assert hits == reference(kind, capacity, stream)
    assert store.dropped == len(set(stream)) - len(store.held) + _again(kind, capacity, stream)


def _again(kind: str, capacity: int, stream: Sequence[int]) -> int:
    """Misses beyond the first of each block: what was dropped and came again."""
    return len(stream) - reference(kind, capacity, stream) - len(set(stream))


def test_the_least_recently_used_block_is_at_a_distance_of_the_capacity() -> None:
    """Mattson, Gecsei, Slutz and Traiger 1970: a block is held exactly where fewer than the capacity came since."""
    stream = (np.random.default_rng(3).zipf(1.2, 2000) % 150).tolist()
    store = empty("host", 30, False, "lru")
    for place, block in enumerate(stream):
        before = [i for i in range(place) if stream[i] == block]
        near = bool(before) and len(set(stream[before[-1] + 1 : place])) < 30
        assert (block in store.held) == near
        store.put((block,))


def test_ends_of_prefixes_give_way_first() -> None:
    store = empty("host", 4, False, "lru")
    store.put((1, 2, 3, 4))
    assert store.put((9,)) == [4]
    store.use((1, 2, 3))
    assert store.put((8, 7)) == [9, 3]


def test_what_is_on_its_way_is_not_wanted_again() -> None:
    store = empty("host", 4, False, "lru")
    store.coming.add(5)
    assert [store.wants(one) for one in (5, 6)] == [False, True]
    store.put((5,))
    assert not store.coming and not store.wants(5)
    assert not empty("none", 0, False, "lru").wants(1)


def test_an_unknown_eviction_is_an_error() -> None:
    assert EVICTIONS.names() == ("fifo", "lfu", "lru")
    with pytest.raises(InputError, match="unknown eviction `lra`"):
        empty("host", 4, False, "lra")


def test_a_way_is_as_slow_as_its_slowest_lane_for_its_share() -> None:
    way = path(1e-9, [Lane(0, 8.0), Lane(1, 3.0, 0.25), Lane(2, 10.0, 0.5), Lane(2, 10.0, 0.5)])
    assert way.rate == 8.0
    assert way.ticks(80) == 1000 + 10
    activity = way.activity(80)
    assert (activity.latency, activity.work) == (1000, 10)
    assert [(use.resource, use.rate) for use in activity.uses] == [(0, 8.0), (1, 2.0), (2, 8.0)]
    assert way.activity(80, latency=False).latency == 0
