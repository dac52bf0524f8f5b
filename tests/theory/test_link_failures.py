"""Links that are down: what needs them lasts longer by exactly that time, or goes another way; nothing passes them."""

from dataclasses import replace
from typing import Any

import pytest

from simulator import fabric, units
from simulator.engine.agenda import Agenda
from simulator.engine.tape import Activity, Use
from simulator.fabric.sharing import max_min
from simulator.random import stream
from simulator.serving.fleet.breakdowns import Planned
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.fleet.links import LinkBreakdowns
from simulator.serving.fleet.router import ROUTERS, Choice
from simulator.serving.replica.ledger import open_ledger
from simulator.specs.distribution import Distribution
from simulator.specs.fleet import LinkFailures
from tests.machines import cluster, profile
from tests.replicas import ENDLESS, Price, Setting, asked, replica

PLAIN = Price(row=10_000, sample=0, read=0, edge=ENDLESS, base=0, overhead=50_000, each=0)
APART = Setting(decoders=2, price=PLAIN, budget=1 << 20, most=8, blocks=4000)
MACHINE: dict[str, Any] = {"nodes": 3, "devices": 2, "nics": 2}
PLACES = {0: (0,), 1: (2,), 2: (4,)}
"""A prefill replica on the first node, decode replicas on the two others."""


class Moved:
    """A run with links that are down from and until a tick."""

    def __init__(self, outages: list[tuple[str, int, int]], reroute: bool, decoders: int = 2, count: int = 1) -> None:
        network = fabric.build(cluster(**MACHINE))
        capacity = network.capacity / units.TICKS_PER_SECOND
        agenda = Agenda(capacity, max_min)
        ledger = open_ledger(asked([(0, 4000, 3)] * count))
        fleet = Fleet(agenda, ledger, asked([(0, 4000, 3)] * count), ROUTERS.get("round-robin"), Choice(stream(0, "r")))
        setting = replace(APART, decoders=decoders)
        roles = ["prefill"] + ["decode"] * decoders
        replicas = [replica(setting, number, role, fleet, True) for number, role in enumerate(roles)]
        self.transfer = fleet.kv_transfer = KvTransfer(agenda, ledger, network, profile(), PLACES, 1e5, 4, False)
        self.transfer.decoders = replicas[1:]
        things = {name: network.find(name) for name, *_ in outages}
        links = sorted({link for found in things.values() for link in found})
        planned = [Planned(start, name, until) for name, start, until in outages]
        given = things, planned, 0, {link: float(capacity[link]) for link in links}
        self.links = LinkBreakdowns(
            agenda, None, *given, lambda link, share: agenda.change(link, share * capacity[link]), lambda: fleet.busy
        )
        if reroute:
            self.transfer.down, self.links.turned = self.links.down, self.transfer.turned
        fleet.open(replicas[:1])
        self.links.watch()
        self.load = agenda.record()
        agenda.run()
        self.ledger = ledger
        assert not fleet.busy and not self.transfer.moving

    def row(self) -> tuple[int, int]:
        """Start and end of the one cache that moved."""
        ((_, start, end, _),) = self.transfer.rows
        return start, end


def test_a_cache_waits_for_as_long_as_its_link_is_down() -> None:
    start, end = Moved([], False).row()
    lasts = (end - start) // 3
    for down in (1, 1_000_000, 10**9):
        assert Moved([("NIC 0", start + lasts, start + lasts + down)], False).row() == (start, end + down)
    twice = [("NIC 0", start + lasts, start + lasts + 1000), ("NIC 0", start + 2 * lasts, start + 2 * lasts + 500)]
    assert Moved(twice, False).row() == (start, end + 1500)
    assert Moved([("NIC 1", start + lasts, end + 10**9)], False).row() == (start, end)


def test_outages_that_overlap_count_once() -> None:
    start, end = Moved([], False).row()
    fault = start + (end - start) // 2
    both = [("NIC 0", fault, fault + 4000), ("NIC up 0", fault + 2000, fault + 7000)]
    assert Moved(both, False).row() == (start, end + 7000)


def test_rerouted_caches_go_over_the_other_card_of_their_node() -> None:
    """It starts again, over the neighbour's card, which is as fast; the way through the node adds its hop."""
    start, end = Moved([], True).row()
    fault = start + (end - start) // 2
    again, here = Moved([("NIC 0", fault, 10**12)], True, decoders=1).row()
    assert again == fault
    hop = 2_000_000
    assert end - start <= here - again <= end - start + 2 * hop


def test_without_another_card_they_go_to_another_replica_or_wait() -> None:
    start, end = Moved([], True).row()
    fault, back = start + (end - start) // 2, start + 10 * (end - start)
    cards = [(f"NIC {card}", fault, back) for card in (2, 3)]
    assert (moved := Moved(cards, True)).ledger.replica == [2] and moved.row() == (fault, fault + end - start)
    assert Moved(cards, True, decoders=1).row() == (back, back + end - start)
    assert Moved(cards, False, decoders=1).row() == (start, end + back - fault)


def test_nothing_passes_a_link_that_is_down() -> None:
    network = fabric.build(cluster(**MACHINE))
    capacity = float(network.capacity[network.find("NIC up 0")[0]]) / units.TICKS_PER_SECOND
    agenda = Agenda([capacity], max_min)
    ends: list[int] = []
    agenda.start(Activity(0, 10_000, (Use(0, capacity, 1.0),)), lambda: ends.append(agenda.now))
    for tick, share in ((2_000, 0.0), (5_000, 1.0), (6_000, 0.0), (6_500, 1.0)):
        agenda.at(tick, lambda _, share=share: agenda.change(0, share * capacity))  # type: ignore[misc]
    agenda.run()
    assert ends == [13_500]


def test_a_stopped_activity_leaves_its_links_to_others() -> None:
    agenda = Agenda([1.0], max_min)
    ends: list[int] = []
    use = (Use(0, 1.0, 1.0),)
    first = agenda.start(Activity(0, 1000, use), lambda: ends.append(-1))
    agenda.start(Activity(0, 1000, use), lambda: ends.append(agenda.now))
    late = agenda.start(Activity(500, 10, use), lambda: ends.append(-2))
    agenda.at(400, lambda _: (agenda.stop(first), agenda.stop(late), agenda.stop(late)))
    agenda.run()
    assert ends == [400 + 800]


@pytest.mark.parametrize("seed", [0, 1])
def test_links_fail_by_chance_as_often_as_they_should(seed: int) -> None:
    agenda = Agenda([1.0, 1.0], max_min)
    rules = LinkFailures(names=("a", "b"), mtbf="1 ms", repair=Distribution(exponential=1e-4))
    until = 2 * 10**12
    down: list[float] = []
    links = LinkBreakdowns(
        agenda,
        rules,
        {"a": (0,), "b": (1,)},
        (),
        seed,
        {0: 1.0, 1: 1.0},
        lambda _, share: down.append(share),
        lambda: agenda.now < until,
    )
    links.watch()
    agenda.run()
    assert len(links.log) == pytest.approx(2 * until / 1e9 / 1.1, rel=0.06)
    assert down.count(0.0) == down.count(1.0) == len(links.log) and not links.down
