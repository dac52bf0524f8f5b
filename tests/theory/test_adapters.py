"""Adapters when serving: loads take their bytes, hits follow an independent count, blocks are conserved, leaps agree.

Replicas have prices made by hand; ticks of loads and of kernels are counted here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from simulator.results.serving.service import FINISHED
from simulator.serving.replica.adapters import AdapterRules, AdapterSlots
from simulator.serving.tiers.path import Lane, path
from simulator.serving.workload.generate import NEVER
from tests.replicas import TOKENS, Setting, System, asked, system

SETTING = Setting(price=TOKENS, budget=64, most=4, blocks=200, block_size=4)
"""10 ticks a row and nothing else."""
SIZE, RATE = 50_000.0, 100.0
LOAD = 500
"""Ticks of the load of an adapter alone."""


@dataclass
class Kernels:
    """3 ticks a row with an adapter, 100 for each different one."""

    def ticks(self, rows: int, adapters: int, ranks: int) -> int:
        return 3 * rows + 100 * adapters


def attached(ran: System, of: Sequence[int], slots: int | None = 2, blocks: int = 5, **more: Any) -> list[AdapterSlots]:
    """Give each replica adapters behind a link of its own."""
    made = []
    for replica in ran.replicas:
        lane = Lane(ran.agenda.add(RATE), RATE)
        kernels: Any = (Kernels(),) * len(replica.stages.costs)
        given = {"host_slots": None, "fetch": None, "load": path(0.0, [lane])} | more
        own = () if slots is not None else (blocks,)
        rules = AdapterRules(of, (8,), (SIZE,), own, slots, kernels, **given)
        replica.adapters = AdapterSlots(replica, rules)
        if slots is None:
            replica.blocks.spare = replica.adapters
        made.append(replica.adapters)
    return made


def conserved(ran: System) -> None:
    """All is finished, nothing is held, and all blocks are free or those of idle adapters."""
    assert set(ran.ledger.status) == {FINISHED}
    for replica in ran.replicas:
        adapters, queue, blocks = replica.adapters, replica.queue, replica.blocks
        assert adapters is not None
        assert not (adapters._users or adapters._coming or adapters._aside or adapters._since)
        assert adapters.idle_blocks == sum(map(adapters._blocks, adapters._idle))
        assert blocks.free + adapters.idle_blocks == blocks.memory.blocks
        assert (queue.outstanding, queue.pending) == (0, 0) and not queue.waiting
        counts = adapters.counts
        assert counts.loads - counts.evicted == len(adapters._idle)
        assert counts.read_bytes == counts.loads * SIZE
        assert counts.hits + len(counts.waits) >= counts.requests


def test_a_missing_adapter_keeps_its_request_waiting_for_its_bytes() -> None:
    ran = system(asked([(0, 20, 1), (5_000, 20, 1), (10_000, 20, 1)]), SETTING)
    (own,) = attached(ran, [7, 7, -1])
    ran.agenda.run()
    conserved(ran)
    kernels = 3 * 20 + 100
    assert ran.ledger.scheduled == [LOAD, 5_000, 10_000]
    assert ran.ledger.first_token == [LOAD + 200 + kernels, 5_200 + kernels, 10_200]
    assert (own.counts.requests, own.counts.hits, own.counts.loads) == (2, 1, 1)
    assert list(own.counts.waits) == [LOAD]


def test_loads_run_beside_decodes_and_share_their_link() -> None:
    """Two loads at once take as long as both; a request without an adapter decodes meanwhile."""
    ran = system(asked([(0, 10, 200), (1_000, 10, 1), (1_000, 10, 1)]), SETTING)
    attached(ran, [-1, 0, 1])
    ran.agenda.run()
    conserved(ran)
    assert all(2_000 <= ran.ledger.scheduled[i] < 2_010 for i in (1, 2))  # the boundary of a decode of 10 ticks
    log = ran.log()
    assert log[log[:, 0] < 2_000, 4].max() == 1


def test_rows_of_an_iteration_pay_for_each_of_their_adapters_once() -> None:
    ran = system(asked([(0, 10, 5), (0, 10, 5), (0, 10, 5)]), SETTING)
    (own,) = attached(ran, [0, 0, 1])
    ran.agenda.run()
    conserved(ran)
    first = min(ran.ledger.scheduled)
    assert own.replica.record.adapted == sum(_spans(ran)) - 10 * _rows(ran)
    assert first == 2 * LOAD  # both loads share the link
    assert ran.ledger.finish[0] - ran.ledger.first_token[0] == 4 * (3 * 10 + 3 * 3 + 200)


def _spans(ran: System) -> list[int]:
    return [count * first + growth * count * (count - 1) // 2 for _, count, first, growth, *_ in ran.log().tolist()]


def _rows(ran: System) -> int:
    return sum(row[1] * row[4] + row[5] for row in ran.log().tolist())


@pytest.mark.parametrize("slots", [1, 3, 8])
@pytest.mark.parametrize("exponent", [0.0, 1.2])
def test_hits_are_those_of_an_independent_lru(slots: int, exponent: float) -> None:
    """Requests one after the other, so that the order of their ends is that of their beginnings."""
    random = np.random.default_rng(slots)
    weights = np.arange(1.0, 13.0) ** -exponent
    of = random.choice(12, 300, p=weights / weights.sum()).tolist()
    ran = system(asked([(i * 10_000, 8, 2) for i in range(300)]), SETTING)
    (own,) = attached(ran, of, slots)
    ran.agenda.run()
    conserved(ran)
    held: list[int] = []
    hits = 0
    for adapter in of:
        if adapter in held:
            hits += 1
            held.remove(adapter)
        elif len(held) == slots:
            held.pop(0)
        held.append(adapter)
    assert own.counts.hits == hits and own.counts.loads == 300 - hits


def test_hosts_fetch_from_storage_what_they_do_not_hold() -> None:
    """Of one slot and two places on the host, every load whose stack distance is more than two comes from storage."""
    of = [0, 1, 0, 2, 1, 0, 0, 2]
    ran = system(asked([(i * 10_000, 8, 2) for i in range(len(of))]), SETTING)
    slow = path(0.0, [Lane(ran.agenda.add(RATE / 4), RATE / 4)])
    (own,) = attached(ran, of, 1, host_slots=2, fetch=slow)
    ran.agenda.run()
    conserved(ran)
    assert list(own.counts.waits) == [4 * LOAD, 4 * LOAD, LOAD, 4 * LOAD, 4 * LOAD, 4 * LOAD, 4 * LOAD]
    assert (own.counts.loads, own.counts.fetched, own.counts.hits) == (7, 6, 1)


def test_requests_of_adapters_that_are_there_pass_those_that_wait_for_room() -> None:
    ran = system(asked([(0, 10, 100), (3_000, 10, 1), (3_100, 10, 1)]), SETTING)
    attached(ran, [0, 1, 0], 1)
    ran.agenda.run()
    conserved(ran)
    ledger = ran.ledger
    assert ledger.scheduled[2] < ledger.finish[0] and ledger.scheduled[1] == ledger.finish[0] + LOAD


def test_idle_adapters_give_their_blocks_to_the_cache() -> None:
    """Three adapters of 40 blocks and a prompt of 400 tokens on 150 blocks: the oldest adapter goes."""
    ran = system(asked([(0, 8, 2), (5_000, 8, 2), (10_000, 8, 2), (20_000, 400, 2)]), replace(SETTING, blocks=150))
    (own,) = attached(ran, [0, 1, 2, -1], None, blocks=40)
    ran.agenda.run()
    conserved(ran)
    assert own.counts.evicted == 2 and list(own._idle) == [2]


@pytest.mark.parametrize("slots", [None, 1, 3])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("stages", [1, 2])
def test_leaps_change_nothing(slots: int | None, seed: int, stages: int) -> None:
    """Tight memory, many adapters: every request is finished at the same tick, leap or no leap."""
    random = np.random.default_rng(seed)
    rows = np.column_stack([random.integers(0, 30_000, 40), random.integers(1, 90, 40), random.integers(1, 60, 40)])
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    of = random.integers(-1, 7, 40).tolist()
    setting = replace(
        SETTING, blocks=70, stages=stages, policy=("vllm-v1", "prefill-first", "shortest-first")[seed % 3]
    )
    found = []
    for leap in (True, False):
        ran = system(asked([tuple(row) for row in rows.tolist()]), setting, leap)  # type: ignore[misc]
        own = attached(ran, of, slots, blocks=9)
        ran.agenda.run()
        conserved(ran)
        counts = own[0].counts
        found.append((ran.ledger.finish, ran.ledger.first_token, counts.loads, counts.hits, list(counts.waits)))
    assert found[0] == found[1]


def test_adapters_that_fill_the_cache_give_way_to_the_first_request() -> None:
    """Four adapters of 12 blocks and prompts of 40 tokens on 50 blocks, all at once: one after the other, none lost."""
    for output in (1, 60):
        ran = system(asked([(0, 40, output)] * 8), replace(SETTING, blocks=50, most=8))
        attached(ran, [0, 1, 2, 3] * 2, None, blocks=12)
        ran.agenda.run()
        conserved(ran)


def test_a_request_that_never_fits_beside_its_adapter_is_rejected() -> None:
    ran = system(asked([(0, 40, 1), (0, 40, 1)]), replace(SETTING, blocks=15))
    attached(ran, [0, -1], None, blocks=9)
    ran.agenda.run()
    assert ran.ledger.finish[0] == NEVER and ran.ledger.status[1] == FINISHED
