"""How flows share parallel cables: collisions of hashes, plans, spraying, a cable that is slow; against theory."""

from math import gcd
from typing import Any

import numpy as np
import pytest

from simulator.collectives import cost_of
from simulator.fabric import Fabric, build
from tests.machines import cluster, figure, profile

CARD = {"devices": 1, "nics": 1}


def leaves(hosts: int, spines: int, groups: int = 2, **network: Any) -> Fabric:
    """Leaves of hosts with one card of 25 GB/s each, as many cables as spines up from each."""
    keys = {"kind": "leaf-spine", "leaf_nodes": hosts, "spines": spines} | network
    return build(cluster(nodes=groups * hosts, network=keys, **CARD))


# Mean load over the load of the fullest of m cables, under k flows each: balls in bins, by Monte Carlo.
@pytest.mark.parametrize(
    ("cables", "flows", "share"),
    [(8, 1, 0.41), (8, 4, 0.58), (16, 1, 0.35), (16, 4, 0.52), (16, 16, 0.69), (32, 1, 0.30), (32, 8, 0.56)],
)
def test_hashed_flows_fill_cables_as_balls_fill_bins(cables: int, flows: int, share: float) -> None:
    found = []
    for seed in range(60):
        routing = {"policy": "ecmp", "seed": seed, "connections": flows}
        fabric = leaves(cables, cables, routing=routing)
        ranks = np.repeat(np.arange(cables), flows)
        ways = fabric.paths(ranks, ranks + cables, flows)
        first = fabric.first_outer + 4 * cables
        up = np.bincount(ways[ways >= 0], minlength=len(fabric.capacity))[first : first + cables]
        found.append(up.mean() / up.max())
    assert np.mean(found) == pytest.approx(share, abs=0.03)


def fullest(fabric: Fabric, src: np.ndarray[Any, Any], dst: np.ndarray[Any, Any]) -> float:
    """Flows on the fullest cable between switches."""
    parts = fabric.parts(len(src))
    ways = fabric.paths(np.repeat(src, parts), np.repeat(dst, parts), parts)
    load = np.bincount(ways[ways >= 0], minlength=len(fabric.capacity)) / parts
    return float(load[fabric.first_outer + 2 * fabric.devices :].max())


def flows_of(name: str, ranks: int, hosts: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A ring over members of all leaves in turn, a shift by half, all to all, and halving and doubling."""
    here = np.arange(ranks)
    if name == "ring across leaves":
        order = here.reshape(-1, hosts).T.ravel()
        return order, np.roll(order, -1)
    if name == "all to all":
        src, dst = np.nonzero(~np.eye(ranks, dtype=bool))
        return src, dst
    return here, (here + ranks // 2) % ranks if name == "shift" else here ^ hosts


@pytest.mark.parametrize("name", ["ring across leaves", "shift", "halving", "all to all"])
@pytest.mark.parametrize(("hosts", "spines"), [(8, 8), (8, 4), (8, 6), (4, 8)])
def test_split_and_planned_flows_are_as_even_as_sprayed_ones(name: str, hosts: int, spines: int) -> None:
    """Single ways with the least splitting reach the congestion of packet spraying (Ethereal, arXiv:2407.00550)."""

    def by(policy: str, **more: Any) -> float:
        fabric = leaves(hosts, spines, groups=4, routing={"policy": policy} | more)
        return fullest(fabric, *flows_of(name, 4 * hosts, hosts))

    planned, sprayed = by("planned", connections="even"), by("spray")
    assert planned <= sprayed * (1 + 1e-9) + 1 / (spines // gcd(spines, hosts)) * (name in ("all to all",))
    assert by("ecmp", seed=1) > sprayed


def rate(fabric: Fabric) -> float:
    """Bytes per second of an all-reduce of all ranks in rings."""
    cost = cost_of("all_reduce", [range(fabric.devices)], 1e9, fabric, profile(), "ring")
    return 1e9 / (cost.slowest * 1e-12)


def rings(policy: str, seed: int = 0, left: float = 1.0, connections: int | str = 1) -> float:
    """Rings of 16 nodes of eight cards on leaves of one node each, so that every hop crosses spines."""
    degraded = [{"link": "leaf 0", "left": left}] if left < 1 else []
    routing = {"policy": policy, "seed": seed, "connections": connections}
    keys = {"kind": "leaf-spine", "leaf_nodes": 1, "spines": 8, "routing": routing, "degraded": degraded}
    return rate(build(cluster(nodes=16, network=keys, nic="25 GB/s", bandwidth="900 GB/s")))


def test_planning_gives_what_hashes_lose() -> None:
    """C4P: planned paths leave nothing to collisions; hashes of few long flows leave a third to a half."""
    planned, sprayed = rings("planned"), rings("spray")
    hashed = [rings("ecmp", seed) for seed in range(10)]
    assert planned == pytest.approx(sprayed)
    assert all(one < planned for one in hashed) and np.mean(hashed) / planned == pytest.approx(0.27, abs=0.06)
    more = np.mean([rings("ecmp", seed, connections=16) for seed in range(10)])
    assert np.mean(hashed) < more < planned


def test_a_slow_cable_costs_a_plan_little_and_others_its_share() -> None:
    """One of eight cables of a leaf at half: sprayed packets wait for it; a plan of 64 parts on 7.5 cables lays at
    least nine on the fullest, and within one of that."""
    whole, sprayed = rings("spray"), rings("spray", left=0.5)
    assert sprayed == pytest.approx(whole / 2, rel=0.02)
    assert whole * 8 / 10 <= rings("planned", left=0.5, connections=8) <= whole * 8 / 9 * 1.01
    assert whole * 8 / 11 <= rings("planned", left=0.0, connections=8) <= whole * 8 / 10 * 1.02


def test_sites_are_bound_by_their_connections() -> None:
    """An all-reduce of two nodes over 0.5 Gbit/s: both halves there and back, at the rate of so many connections."""
    for connections in (1, 8):
        keys = {
            "kind": "sites",
            "sites": [{"name": "a", "nodes": 1}, {"name": "b", "nodes": 1}],
            "links": [{"between": ["a", "b"], "delay": "40 ms", "flow_bandwidth": "0.5 Gbit/s"}],
            "routing": {"connections": connections},
            "latency": figure("0 s"),
        }
        fabric = build(cluster(nodes=2, network=keys, **CARD))
        seconds = cost_of("all_reduce", [range(2)], 1e9, fabric, profile(), "ring").slowest * 1e-12
        assert seconds == pytest.approx(1e9 / (connections * 0.5e9 / 8) + 2 * 40e-3, rel=1e-3)
