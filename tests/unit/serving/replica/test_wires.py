"""Replicas on links that others use: what max-min says, worked out by hand, and nothing where nobody is near."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from simulator.engine.agenda import Agenda
from simulator.engine.tape import Activity, Use
from simulator.engine.wires import Wires
from simulator.serving.replica.wires import GroupWires, ReplicaWires
from tests.replicas import ENDLESS, Price, Setting, System, asked, check, system

LINK = 0
QUIET, MOVING = 600, 400
"""Ticks of an iteration of one row in which nothing moves, and in which its bytes do."""
FLAT = Price(row=0, sample=0, read=0, edge=ENDLESS, base=0, overhead=QUIET + MOVING, each=0)


def full(agenda: Agenda, work: int, latency: int = 0, flows: float = 1.0) -> Activity:
    """All that a link has, for so long."""
    return Activity(latency, work, (Use(LINK, agenda.fluid.capacity[LINK], flows),))


@dataclass
class Foreign:
    """Others on the link: (start, ticks of work) of each, and when they end."""

    made: System
    ends: list[int] = field(default_factory=list)

    def come(self, *whom: tuple[int, int]) -> None:
        """They come at these ticks."""
        agenda = self.made.agenda
        users = [one.wires if one.group is None else one.group.wires for one in self.made.replicas]
        for start, work in whom:
            wires = Wires()
            wires.neighbours = [user for user in dict.fromkeys(users) if user is not None]
            for user in wires.neighbours:
                user.neighbours.append(wires)
            agenda.at(start, self._start(wires, full(agenda, work)))

    def _start(self, wires: Wires, activity: Activity) -> Callable[[object], None]:
        def done() -> None:
            wires.leave()
            self.ends.append(self.made.agenda.now)

        def start(_: object) -> None:
            wires.enter()
            self.made.agenda.start(activity, done)

        return start


def made(
    rows: list[tuple[int, int, int]],
    *foreign: tuple[int, int],
    fast_forward: bool = True,
    flows: float = 1.0,
    shared: bool = True,
    moving: int = MOVING,
    **setting: int,
) -> tuple[System, list[int]]:
    """Replicas that all use one link, and others who come on it."""
    ran = system(asked(rows), Setting(price=FLAT, **setting), fast_forward)  # type: ignore[arg-type]
    for replica in ran.replicas if shared else ():
        move = full(ran.agenda, moving, flows=flows)
        replica.wires = ReplicaWires(replica.batches[0], lambda *_, move=move: (move,))  # type: ignore[misc]
    for replica in ran.replicas if shared else ():
        assert replica.wires is not None
        replica.wires.neighbours = [one.wires for one in ran.replicas if one is not replica and one.wires is not None]
    others = Foreign(ran)
    others.come(*foreign)
    ran.agenda.run()
    check(ran)
    return ran, others.ends


def lengths(ran: System, replica: int = 0) -> list[int]:
    """Ticks of each iteration."""
    return [first for _, count, first, *_ in ran.log(replica).tolist() for _ in range(count)]


def test_two_replicas_that_send_at_once_take_turns_in_halves() -> None:
    """Both compute for 600 ticks and then share the link: 400 ticks at half the speed."""
    ran, _ = made([(0, 1, 4), (0, 1, 4)], replicas=2)
    assert lengths(ran, 0) == lengths(ran, 1) == [QUIET + 2 * MOVING] * 4
    assert ran.replicas[0].record.stalled == 4 * MOVING


def test_a_moved_cache_slows_an_iteration_and_the_other_way_round() -> None:
    """The iteration from 1,000 sends from 1,600 on. From 1,700 on a cache of 1,000 ticks shares with its last 300:
    both run at half the speed until 2,300. Then the cache is alone for the 600 ticks in which the next one computes,
    with 100 of its 700 left; these share until 3,100, when the iteration has 300 ticks left, alone."""
    ran, ends = made([(0, 1, 6)], (1700, 1000))
    assert ends == [2300 + 600 + 200]
    assert lengths(ran) == [1000, 1300, QUIET + 200 + 300, 1000, 1000, 1000]
    assert ran.replicas[0].record.stalled == 300 + 100


def test_a_cache_beside_the_computing_of_an_iteration_slows_nothing() -> None:
    ran, ends = made([(0, 1, 6)], (1000, QUIET), (2100, 300))
    assert ends == [1600, 2400]
    assert lengths(ran) == [1000] * 6


def test_more_flows_of_a_collective_get_more_of_the_link() -> None:
    """Three flows beside one: 400 ticks at 3/4 of the speed; the cache of 1,000 has 1,000 - 1/4 x 400 x 4/3 left."""
    ran, ends = made([(0, 1, 2)], (1600, 1000), flows=3.0)
    assert lengths(ran) == [1000, QUIET + round(MOVING * 4 / 3)]
    assert ends == [pytest.approx(1600 + 533 + 1000 - 133, abs=1)]


@pytest.mark.parametrize("fast_forward", [True, False])
@pytest.mark.parametrize("start", [0, 1, 599, 600, 601, 999, 1000, 1001, 4300, 4600, 4999, 5000, 5001, 20_000])
def test_others_who_come_and_leave_find_the_same_iterations(start: int, fast_forward: bool) -> None:
    """At any tick of a stretch, fast-forwarded or not, what has been sent stays sent."""
    ran, ends = made([(0, 1, 12)], (start, 300), (start + 5000, 20), fast_forward=fast_forward)
    step, others = made([(0, 1, 12)], (start, 300), (start + 5000, 20), fast_forward=not fast_forward)
    assert (ran.ledger, ends) == (step.ledger, others)
    assert lengths(ran) == lengths(step)
    moved, alone = sum(lengths(ran)), 12 * 1000
    assert alone <= moved <= alone + 320


def test_alone_on_its_links_an_iteration_lasts_what_it_costs() -> None:
    """Others who come when it is idle, or leave before it begins, change no tick; and it is fast-forwarded."""
    plain, _ = made([(10_000, 1, 20), (200_000, 1, 20)], shared=False)
    ran, _ = made([(10_000, 1, 20), (200_000, 1, 20)], (100, 5000), (100_000, 5000))
    assert ran.ledger == plain.ledger
    assert ran.log().tolist() == plain.log().tolist()


def test_an_iteration_that_only_sends() -> None:
    """Both ask for the link from 2,000 on: 500 ticks take 1,000, and the iteration ends 500 later."""
    ran, ends = made([(0, 1, 4)], (2000, 500), moving=QUIET + MOVING)
    assert ends == [3000]
    assert lengths(ran) == [1000, 1000, 1500, 1000]


def test_an_arrival_while_others_are_there_begins_with_the_next_iteration() -> None:
    ran, _ = made([(0, 1, 6), (1650, 1, 2)], (1600, 300))
    assert ran.ledger.scheduled[1] == 1000 + QUIET + MOVING + 300


def in_step(*foreign: tuple[int, int], shared: bool = True) -> tuple[System, list[int]]:
    """Two replicas in step; 400 ticks of an iteration of one row exchange it, those of two rows 800."""
    price = Price(row=0, sample=0, read=0, edge=ENDLESS, base=0, overhead=QUIET, each=0, expert=MOVING)
    ran = system(asked([(0, 1, 4), (1700, 1, 3)]), Setting(price=price, replicas=2, sharers=2))
    group = ran.replicas[0].group
    assert group is not None
    if shared:
        group.wires = GroupWires(group, lambda rows, _: [full(ran.agenda, MOVING * rows)])
    others = Foreign(ran)
    others.come(*foreign)
    ran.agenda.run()
    check(ran)
    return ran, others.ends


def test_replicas_in_step_alone_on_their_links() -> None:
    plain, _ = in_step(shared=False)
    ran, _ = in_step()
    late, _ = in_step((100_000, 50))
    assert ran.ledger == plain.ledger == late.ledger
    for replica, same in zip(ran.replicas, plain.replicas, strict=True):
        assert replica.record.log == same.record.log


def test_an_exchange_of_experts_shares_its_links() -> None:
    """The second iteration exchanges one row from 1,600 on; with a cache of 300 that comes then it ends 300 later. The
    request that came at 1,700 waits for that end, and rows of two are exchanged from then on."""
    ran, ends = in_step((1600, 300))
    assert ends == [2200]
    assert lengths(ran, 0) == [1000, QUIET + 300 + MOVING, QUIET + 2 * MOVING, QUIET + 2 * MOVING]
    assert ran.ledger.scheduled[1] == 2300
    assert ran.replicas[0].record.stalled == 300
    assert lengths(ran, 1)[:2] == [QUIET + 2 * MOVING] * 2


def test_caches_beside_the_own_work_of_replicas_in_step_slow_nothing() -> None:
    ran, ends = in_step((1000, QUIET), (2100, 400))
    assert ends == [1600, 2500]
    assert lengths(ran, 0)[:2] == [1000, 1000]
    assert ran.replicas[0].record.stalled == 0
