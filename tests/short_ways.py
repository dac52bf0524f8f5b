"""Ways of a replica that are quicker and must not differ from the long one: what their tests share."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from simulator.run.serve import ServingRun
from simulator.serving.replica.batch import Batch
from simulator.serving.replica.replica import Replica


def all_of(run: ServingRun) -> dict[str, Any]:
    """Everything that is written down."""
    found = {name: getattr(run.ledger, name) for name in ("first_token", "finish", "preemptions", "replica")}
    for number, replica in enumerate(run.replicas):
        record = replica.record
        columns = (record.log, record.gap_ticks, record.gap_counts, record.waits, record.shared_rows, record.apart)
        sums = record.busy, record.saved, record.hosted, record.drafted, record.exchanged, replica.blocks.free
        found[f"replica {number}"] = [*map(np.array, columns), sums]
    return found


def check_both_ways(
    way: ModuleType, condition: str, served: Callable[[], ServingRun], more_than: int, patch: pytest.MonkeyPatch
) -> None:
    """A run is the same with and without a way, which its `begin` took more than so many times where it may."""
    taken: list[bool] = []

    def counted(batch: Batch, now: int, begin: Callable[[Batch, int], bool] = way.begin) -> bool:
        taken.append(begin(batch, now))
        return taken[-1]

    patch.setattr(way, "begin", counted)
    short = all_of(served())
    assert sum(taken) > more_than
    patch.setattr(way, condition, lambda batch: False)
    taken.clear()
    long = all_of(served())
    assert not taken
    for name, value in short.items():
        np.testing.assert_equal(value, long[name], name)


def check_asked_for(replica: Replica, condition: Callable[[Batch], bool], there: set[str]) -> None:
    """What a replica or its stages have that is None where it is not used keeps them from a way, but for what may be
    there."""
    (batch,) = replica.batches
    assert condition(batch)
    holders: list[tuple[Any, str]] = [*((replica, name) for name in vars(replica))]
    holders += [(replica.stages, name) for name in type(replica.stages).__slots__]
    empty = [(holder, name) for holder, name in holders if getattr(holder, name) is None and name not in there]
    assert len(empty) > 4
    for holder, name in empty:
        setattr(holder, name, object())
        assert not condition(batch), name
        setattr(holder, name, None)
