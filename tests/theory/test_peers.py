"""The small cases of other simulators on our clock: what they print is what we get.

SimGrid's flow models (tests of its own, github.com/simgrid/simgrid, `teshsuite/models/`) share links max-min fairly, as
we do. ASTRA-sim's congestion-aware analytical network (github.com/astra-sim/astra-network-analytical,
`test/test_congestion_aware.cc`) passes chunks from hop to hop, one after the other.
"""

from itertools import permutations

import pytest

from simulator.engine.clock import Clock
from simulator.engine.tape import Activity, Use, chain
from simulator.fabric.sharing import max_min

SECOND = 1_000_000
"""Ticks."""


def ends(flows: list[Activity], capacity: list[float]) -> list[float]:
    """Seconds at which flows end that are released together; capacities in units per second."""
    clock, found = Clock([units / SECOND for units in capacity], max_min), [-1.0] * len(flows)
    for number, flow in enumerate(flows):

        def done(number: int = number) -> None:
            found[number] = clock.now / SECOND

        clock.start(flow, done)
    clock.run()
    return found


def flow(size: float, rate: float, *links: int, latency: float = 0.0, weight: float = 1.0) -> Activity:
    """So many units over links, at most `rate` a second."""
    uses = tuple(Use(link, rate / SECOND, weight) for link in links)
    return Activity(round(latency * SECOND), round(size / rate * SECOND), uses)


def test_simgrid_two_flows_share_a_dogbone() -> None:
    """1 kB each over a bottleneck of 1 kB/s: 2 s (cm02-set-lat-bw.tesh)."""
    pair = [flow(1e3, 1e3, 0, 1, 2), flow(1e3, 1e3, 0, 3, 4)]
    assert ends(pair, [1e3, 1e9, 1e9, 1e9, 1e9]) == [2.0, 2.0]


def test_simgrid_a_flow_of_twice_the_weight() -> None:
    """After 1 s, when half of both is through, one counts twice: it ends at 1.75 s, the other at 2 s (same file)."""
    one = chain([flow(500, 1e3, 0), flow(500, 1e3, 0, weight=2.0)])
    other = chain([flow(500, 1e3, 0), flow(500, 1e3, 0)])
    assert ends([one, other], [1e3]) == [1.75, 2.0]


@pytest.mark.parametrize(
    ("links", "latency", "shared", "seconds"),
    [
        (1, 0.5, True, 2.5),  # a shared link with 2 comms in the same direction
        (1, 0.5, False, 1.5),  # a fat pipe: each has it all
        (2, 2.0, True, 4.0),  # a route of three links, of which the outer two are shared
    ],
)
def test_simgrid_two_comms_at_once(links: int, latency: float, shared: bool, seconds: float) -> None:
    """1 B each at 1 B/s (ptask_L07_usage.tesh)."""
    pair = [flow(1, 1, *range(links), latency=latency) for _ in range(2)]
    assert ends(pair, [1.0 if shared else 2.0] * links) == [seconds, seconds]


def test_simgrid_scatters_more_and_more() -> None:
    """1, 2 and 3 B leave one host at 1 B/s after 2 s of latency: three flows for 3 s, two for 2 s, one for 1 s."""
    assert ends([flow(size, 1, 0, size, latency=2) for size in (1, 2, 3)], [1.0] * 4) == [5.0, 7.0, 8.0]


def test_simgrid_all_to_all() -> None:
    """Each of 4 hosts sends 1 B to every other, each link carries 6 flows, in and out: 2 s of latency and 6 s."""
    pairs = list(permutations(range(4), 2))
    assert ends([flow(1, 1, *pair, latency=2) for pair in pairs], [1.0] * 4) == [8.0] * 12


@pytest.mark.parametrize(("hops", "nanoseconds"), [(3, 60_093), (1, 20_031), (2, 40_062)])
def test_astra_sim_sends_a_chunk_over_hops(hops: int, nanoseconds: int) -> None:
    """1 MiB from 1 to 4 on a ring, fully connected and through a switch: each hop takes 500 ns and the bytes at
    50 GiB/s, of which whole nanoseconds count."""
    clock, found = Clock([50 * 2**30 / 1e12] * hops, max_min), []
    hop = [
        Activity(500_000, round(2**20 / (50 * 2**30) * 1e12), (Use(i, 50 * 2**30 / 1e12, 1.0),)) for i in range(hops)
    ]
    clock.start(chain(hop), lambda: found.append(clock.now))
    clock.run()
    assert found == [pytest.approx(nanoseconds * 1000, abs=1000 * hops)]
