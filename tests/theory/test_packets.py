"""Flows that share links as a fluid, against packets that are stored and forwarded one by one.

The packet simulator below knows nothing of max-min fairness: packets of equal size, a queue for each flow on each link,
served in turn (round robin), a packet passed on when its last bit is there, buffers without end. The engine runs the
same flows as activities on the same links. Packets of a flow end later than its fluid by the way of one packet, and
earlier or later by its place in a round: by at most one packet time a hop, on a link that k flows share the time that
a flow's packet takes at its share, k packet times. That bound does not grow with the message, so the fluid's error
falls as one over the packets of a message: a thousandth where it has 4 MB (4 KiB packets).

t is the time of a packet on a link of width 1. By hand:

(a) One flow of N packets over three links whose packets take t1, t2, t3. Fluid: N max(t1, t2, t3). Packets:
    t1 + t2 + t3 + (N - 1) max(t1, t2, t3).
(b) Two flows of N and 3 N packets, each over links of its own before and after one that they share, all of width 1.
    Fluid: half each until 2 N t, when the short one ends and the long one has N behind it; the other 2 N packets end at
    4 N t. Where the long one starts at N t / 2: the short one has N / 2 behind it, ends at 3 N t / 2, and the long one,
    with N / 2 behind it, 5 N t / 2 later, at 4 N t. Where the shared link has a width of 3/2: three quarters each until
    4 N t / 3, then 2 N packets at full width of the own links: 10 N t / 3. Packets: one packet time before the shared
    link and one after it more, 2 t, give or take a place in a round.
(c) n senders into one link. Of N packets each: fluid n N t for all. Of N, 2 N, .. n N packets: the i-th ends at
    N t (n + (n - 1) + .. + (n - i + 1)); of four at 4, 7, 9 and 10 N t. Packets: the link into the receiver is busy
    without a gap from the first packet's arrival on, so the last of n senders one link away ends at (n N + 1) t.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
import pytest

from simulator.engine.executor import execute
from simulator.engine.tape import Activity, Use
from simulator.fabric import build
from simulator.fabric.sharing import max_min
from simulator.units import TICKS_PER_SECOND
from tests.machines import cluster
from tests.tapes import tape

T = 163_840
"""Ticks (ps) of a packet of 4,096 bytes at 25 GB/s."""
BYTES = 4096
LENGTHS = (10, 100, 1000)


class Flow(NamedTuple):
    """Packets that take the same way."""

    path: Sequence[int]
    packets: int
    start: int = 0


def packets(flows: Sequence[Flow], ticks: Mapping[int, int]) -> list[int]:
    """When the last packet of each flow is at the end of its way; `ticks` are those of a packet on each link."""
    waiting: dict[int, dict[int, deque[int]]] = defaultdict(lambda: defaultdict(deque))
    turn: dict[int, deque[int]] = defaultdict(deque)
    """Flows with packets waiting for a link, in the order in which they are served."""
    busy, left, ends = set[int](), [flow.packets for flow in flows], [0] * len(flows)
    # What happens at a time: packets arrive first (0), then idle links take the next one (1).
    events: list[tuple[int, int, int, int, int]] = []
    for number, flow in enumerate(flows):
        for _ in range(flow.packets):
            heappush(events, (flow.start, 0, number, 0, -1))
    while events:
        now, take, flow_or_link, hop, freed = heappop(events)
        if take:
            link = flow_or_link
            if link in busy or not turn[link]:
                continue
            number = turn[link].popleft()
            place = waiting[link][number].popleft()
            if waiting[link][number]:
                turn[link].append(number)
            busy.add(link)
            heappush(events, (now + ticks[link], 0, number, place + 1, link))
            continue
        if freed >= 0:
            busy.discard(freed)
            heappush(events, (now, 1, freed, 0, -1))
        if hop == len(flows[flow_or_link].path):
            left[flow_or_link] -= 1
            ends[flow_or_link] = now
            continue
        link = flows[flow_or_link].path[hop]
        if not waiting[link][flow_or_link]:
            turn[link].append(flow_or_link)
        waiting[link][flow_or_link].append(hop)
        heappush(events, (now, 1, link, 0, -1))
    assert not any(left)
    return ends


def fluid(flows: Sequence[Flow], ticks: Mapping[int, int]) -> list[int]:
    """When each flow ends in the engine: an activity on all of its links at once, as fast as the narrowest alone."""
    links = sorted(ticks)
    activities = []
    for flow in flows:
        slowest = max(ticks[link] for link in flow.path)
        uses = tuple(Use(links.index(link), BYTES / slowest, 1) for link in flow.path)
        activities.append(Activity(0, flow.packets * slowest, uses))
    lanes = [[flow.start, 0] for flow in flows]
    runs = {2 * number + 1: number for number in range(len(flows))}
    made = tape(*lanes, runs=runs, activities=activities, capacity=[BYTES / ticks[link] for link in links])
    ends: list[int] = execute(made, max_min).end[1::2].tolist()
    return ends


def compared(flows: Sequence[Flow], ticks: Mapping[int, int]) -> tuple[list[int], list[int]]:
    """(ends of packets, ends of the fluid), which differ by at most a packet time a hop."""
    real, ours = packets(flows, ticks), fluid(flows, ticks)
    sharing = {link: sum(link in flow.path for flow in flows) for link in ticks}
    for flow, end, approximate in zip(flows, real, ours, strict=True):
        rounds = [ticks[link] * sharing[link] for link in flow.path]
        assert -max(rounds) <= end - approximate <= sum(rounds)
    return real, ours


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("widths", [(1, 1, 1), (1, 4, 2), (4, 1, 2), (2, 4, 1)])
def test_one_flow_over_three_links(widths: tuple[int, int, int], count: int) -> None:
    """Case (a)."""
    ticks = {link: T // width for link, width in enumerate(widths)}
    real, ours = compared([Flow((0, 1, 2), count)], ticks)
    assert ours == [count * T]
    assert real == [sum(ticks.values()) + (count - 1) * T]


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize(
    ("start", "middle", "short", "long"),
    [(0.0, 1.0, 2.0, 4.0), (0.5, 1.0, 1.5, 4.0), (0.0, 1.5, 4 / 3, 10 / 3)],
    ids=["together", "later", "wider"],
)
def test_two_flows_share_the_middle_of_their_ways(
    start: float, middle: float, short: float, long: float, count: int
) -> None:
    """Case (b); times in N t."""
    unit = 3 * (T // 3)  # so that a wider link's packet is a whole number of ticks
    ticks = dict.fromkeys(range(5), unit) | {4: round(unit / middle)}
    flows = [Flow((0, 4, 1), count), Flow((2, 4, 3), 3 * count, round(start * count * unit))]
    real, ours = compared(flows, ticks)
    assert ours == pytest.approx([short * count * unit, long * count * unit], abs=1)
    assert real == pytest.approx(ours, abs=3 * unit)


@pytest.mark.parametrize("count", LENGTHS)
@pytest.mark.parametrize("senders", [2, 3, 4, 8])
def test_senders_into_one_link(senders: int, count: int) -> None:
    """Case (c), equal senders: the last ends one packet time after the fluid, and all within the last round."""
    flows = [Flow((number, senders), count) for number in range(senders)]
    real, ours = compared(flows, dict.fromkeys(range(senders + 1), T))
    assert ours == [senders * count * T] * senders
    assert sorted(real) == [(senders * count + 1 - place) * T for place in reversed(range(senders))]


@pytest.mark.parametrize("count", LENGTHS)
def test_senders_of_unequal_messages_into_one_link(count: int) -> None:
    """Case (c), unequal senders."""
    flows = [Flow((number, 4), (number + 1) * count) for number in range(4)]
    real, ours = compared(flows, dict.fromkeys(range(5), T))
    assert ours == [number * count * T for number in (4, 7, 9, 10)]
    assert real[-1] == (10 * count + 1) * T


@pytest.mark.parametrize("count", LENGTHS)
def test_an_incast_over_the_links_of_a_fabric(count: int) -> None:
    """Case (c) on four nodes under two leaves: 25 GB/s cards, from node 1 over two links, from nodes 2 and 3 over four,
    of which those between the leaves are as wide as both cards."""
    fabric = build(cluster(nodes=4, devices=1, kind="none", nics=1))
    transfer, link = fabric.routes(np.array([1, 2, 3]), np.array([0, 0, 0]))
    paths = [link[transfer == number].tolist() for number in range(3)]
    assert [len(path) for path in paths] == [2, 4, 4] and len({path[-1] for path in paths}) == 1
    ticks = {one: round(BYTES / float(fabric.capacity[one]) * TICKS_PER_SECOND) for path in paths for one in path}
    assert sorted(set(ticks.values())) == [T // 2, T]
    real, ours = compared([Flow(path, count) for path in paths], ticks)
    assert ours == [3 * count * T] * 3  # of 1,000 packets: 491.52 us
    assert max(real) == (3 * count + 1) * T
