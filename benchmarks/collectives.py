"""Collectives at scale, each as the whole of a process: `python -m benchmarks.collectives CASE`.

`python -m benchmarks` measures them beside its commands.
"""

import sys
from time import process_time

import numpy as np

from simulator import collectives
from simulator.engine.clock import Clock
from simulator.fabric import Fabric, build
from simulator.fabric.sharing import max_min
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.units import TICKS_PER_SECOND

CASES = {
    "tree-1024": ("all-reduce of 1,024 devices on a tree of three levels, in 200 MB", 1.0),
    "uneven-4096": ("all-to-all of 4,096 devices, as many bytes to each as its load says", 10.0),
    "hierarchical-131072": ("hierarchical all-reduce of 131,072 devices", 3.0),
    "flows-512": ("512 flows of different lengths that meet on a tree of three levels, one by one, with start-up", 1.0),
    "start-512": ("start-up of these flows: what is imported, the machine and its library", 0.5),
}
"""What each is, and its target in CPU seconds. The step of 512 flows alone is the one less the other: 0.5."""


def _machine(nodes: int) -> tuple[Fabric, CollectiveProfile]:
    cluster = load_spec(Cluster, "dgx-h100-superpod").model_copy(update={"nodes": nodes})
    return build(cluster), load_spec(CollectiveProfile, cluster.collectives)


def _seconds(cost: collectives.CollectiveCost) -> float:
    return cost.slowest / TICKS_PER_SECOND


def _started(flows: int) -> float:
    """Seconds of wire to the farthest device: the machine is built, and nothing simulated."""
    machine, _ = _machine(flows // 8)
    return float(np.random.default_rng(1).permutation(machine.latency).max())


def _contended(flows: int) -> float:
    """Seconds until the last of so many flows is through that begin at once; simulating it takes what is printed."""
    machine, library = _machine(flows // 8)
    trunks = np.array(
        [link for link in range(machine.first_outer, len(machine.capacity)) if "NIC" not in machine.links[link]]
    )
    machine = machine.slowed(trunks.tolist(), 0.25)  # a quarter of what comes from below
    draw = np.random.default_rng(1)
    pairs = np.stack([np.arange(flows), draw.permutation(flows)], axis=1)
    shares = draw.uniform(0.01, 1.0, flows)
    clock, begin = Clock(machine.capacity / TICKS_PER_SECOND, max_min), process_time()
    plan = collectives.plan("send", pairs, 1e8, machine, library, "direct/Simple")
    for group, share in enumerate(shares.tolist()):
        for activity in collectives.activities(plan, group):  # none where a device sends to itself
            clock.start(activity._replace(work=round(activity.work * share)), lambda: None)
    planned = process_time() - begin
    clock.run()
    whole = process_time() - begin
    print(f"planned in {planned:.2f} s, ran in {whole - planned:.2f} s: {whole:.2f} s", file=sys.stderr)
    return clock.now / TICKS_PER_SECOND


def simulate(case: str) -> float:
    """Simulated seconds of a case; KeyError for none."""
    name, _, devices = case.rpartition("-")
    if name in ("flows", "start"):
        return (_contended if name == "flows" else _started)(int(devices))
    ranks = range(int(devices))
    machine, library = _machine(len(ranks) // 8)
    if name == "tree":
        return _seconds(collectives.cost_of("all_reduce", ranks, 1e9, machine, library))
    if name == "hierarchical":
        return _seconds(collectives.cost_of("all_reduce", ranks, 1e9, machine, library, name))
    load = tuple(np.random.default_rng(1).uniform(0.5, 2.0, len(ranks)).tolist())
    routing = collectives.Routing(len(ranks), 8, load=load)
    return _seconds(collectives.cost_of("dispatch", ranks, 1e8, machine, library, "direct", routing))


if __name__ == "__main__":
    print(simulate(sys.argv[1]))
