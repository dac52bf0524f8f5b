"""Jobs that meet on an uplink, worked out by hand.

Leaves of A100 servers, 8 cards of 25 GB/s each, pass a part of what comes from below; the library has rings without
launches or protocol costs, so that what an uplink of C bytes per second carries of M bytes takes M / C.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml

from simulator import units
from simulator.program import codes
from simulator.run.jobs.gather import gather
from simulator.run.jobs.simulate import Together
from simulator.run.jobs.training import Trainer
from simulator.specs.hardware import Cluster
from simulator.specs.requests import Arrivals
from tests import machines, together

MS = 10**9
"""Ticks of a millisecond."""


@pytest.fixture
def library(tmp_path: Path) -> str:
    """A collective profile: 5 us a step between nodes, nothing else."""
    free, step = machines.figure(0), {"scale_up": "1 us", "scale_out": "5 us"}
    protocol = {where: machines.scope(0, latency, 1.0) for where, latency in step.items()}
    rings = {operation: list(algorithms) for operation, algorithms in machines.RINGS.items()}
    said = {"name": "library", "algorithms": rings, "protocols": {"plain": protocol}}
    path = tmp_path / "library.yaml"
    path.write_text(yaml.safe_dump(said | {"wire": dict.fromkeys(step, free)}), encoding="utf-8")
    return str(path)


def racks(library: str, nodes: int, leaf: int, oversubscription: float) -> Cluster:
    """Servers in leaves."""
    on = together.cluster(nodes, 8, together.tree(oversubscription, leaf, nodes))
    return on.model_copy(update={"collectives": library})


def trains(name: str, nodes: list[int], **changes: Any) -> Any:
    """A job of which 8 rings of one device a node reduce all gradients at the end of a step."""
    return together.trains(name, placement={"nodes": nodes}, tp=8, zero=0, **changes)


def reduction(trainer: Trainer, number: int = -1) -> tuple[int, int]:
    """When the gradients of a step begin to be reduced and when they are, in ticks of the clock; alone for -1."""
    program = trainer.lowered.program if number >= 0 else trainer.own.program
    begin, timeline = together.steps(trainer)[number] if number >= 0 else (0, trainer.own.timeline)
    (operation, *others) = (program.columns.kind == codes.KINDS.index("reduce gradients")).nonzero()[0].tolist()
    assert not others
    return begin + int(timeline.start[operation]), begin + int(timeline.end[operation])


def on_uplink(ran: Together, name: str) -> float:
    """Ticks in which the busiest uplink of a leaf carries the bytes of a job, if it has it for itself."""
    (load,) = (load for load in ran.trainers[name].own.links if load.name == "leaf up")
    return load.bytes / load.capacity * units.TICKS_PER_SECOND


@pytest.mark.parametrize("later", [0, 2 * MS])
def test_an_all_reduce_beside_another_over_one_uplink(library: str, later: int) -> None:
    """Two jobs on a node of each leaf; C = 2 x 8 x 25 / 4 = 100 GB/s, of which each wants 200.

    Alone the reduction takes l + T with T = M / C. The second begins d later: the first has sent d of its T alone,
    then both have half until it has sent what is left, 2 (T - d); the second has then sent T - d, too, and sends the
    last d alone. Both take l + d + 2 (T - d) = l + 2 T - d.
    """
    second = trains("second", [1, 3], of_job={"start": f"{later / MS} ms"})
    ran = together.run(together.scenario(trains("first", [0, 2]), second, on=racks(library, 4, 2, 4.0)))
    for name in ("first", "second"):
        begin, end = reduction(ran.trainers[name])
        sends = on_uplink(ran, name)
        assert ran.site.fabric.capacity[ran.trainers[name].links].tolist() == [100e9]
        first, last = reduction(ran.trainers[name], 0)
        assert first - begin == (later if name == "second" else 0)
        assert last - first == pytest.approx(end - begin + sends - later, abs=20)


def test_a_ring_over_an_oversubscribed_spine(library: str) -> None:
    """Leaves of four nodes that pass an eighth: C = 4 x 8 x 25 / 8 = 100 GB/s. Rings over two nodes of each leaf go up
    once a leaf; of a buffer S each member sends 2 x 3/4 S, so that the spine takes T = 8 x 3/2 S / C. Rings over one
    node of each leaf send 2 x 1/2 S: 2/3 T.

    Both have half of the spine until the short ones are done after 4/3 T; of the long ones 1/3 T is left. They take
    5/3 T. Short rings have fewer steps of latency: their bytes are on their way earlier by d, and both are done by d
    earlier.
    """
    long, short = trains("long", [0, 1, 4, 5], batch=32), trains("short", [2, 6], batch=16)
    ran = together.run(together.scenario(long, short, on=racks(library, 8, 4, 8.0)))
    whole = on_uplink(ran, "long")
    assert on_uplink(ran, "short") == pytest.approx(2 / 3 * whole)
    alone = {name: reduction(ran.trainers[name]) for name in ("long", "short")}
    latency = {name: end - begin - on_uplink(ran, name) for name, (begin, end) in alone.items()}
    earlier = latency["long"] - latency["short"]
    for name, beside in (("long", 5 / 3 * whole), ("short", 4 / 3 * whole)):
        first, last = reduction(ran.trainers[name], 0)
        assert first == alone[name][0]
        assert last - first == pytest.approx(latency[name] + beside - earlier, abs=100)


@pytest.mark.parametrize("after", [2 * MS, -1 * MS])
def test_a_moved_cache_slows_an_all_reduce_and_the_other_way_round(library: str, after: int) -> None:
    """A prompt of 8,000 tokens: 8 layers x 2 x 1,024 x 2 bytes of each, 262.144 MB, K = 2.62 ms of the uplink; it moves
    from node 1 to 3 by 8 flows, as the gradients do from 0 to 2.

    Begun when gradients already move, the cache has half of the uplink all along and takes 2 K; meanwhile as much of
    the gradients as of the cache moves, so that they end K later. Begun u before the bytes of the gradients, it has
    sent u alone and takes u + 2 (K - u); the gradients end K - u later.
    """
    on = racks(library, 4, 2, 4.0)
    served = together.serves("service", placement={"nodes": [1, 3]}, count=1, prompt=8000, output=2, **together.apart())
    at_once = served.requests.model_copy(update={"arrivals": Arrivals(at_once=True)})
    served = served.model_copy(update={"requests": at_once})
    alone = together.run(together.scenario(trains("training", [0, 2]), served, on=on))
    begin, end = reduction(alone.trainers["training"])
    ((moved, arrived),) = _moves(alone)
    start = (begin + after - moved) / units.TICKS_PER_SECOND
    ran = together.run(together.scenario(trains("training", [0, 2]), served.model_copy(update={"start": start}), on=on))
    takes = 262_144_000 / 100e9 * units.TICKS_PER_SECOND
    gradients, cache = end - begin - on_uplink(ran, "training"), arrived - moved - takes
    before = max(gradients - after - cache, 0)
    ((first, last),) = _moves(ran)
    assert first == pytest.approx(begin + after, abs=1)
    assert last - first == pytest.approx(cache + before + 2 * (takes - before), abs=20)
    assert reduction(ran.trainers["training"], 0) == pytest.approx((begin, end + takes - before), abs=20)


def _moves(ran: Together) -> list[tuple[int, int]]:
    """When caches moved."""
    service = gather(ran).jobs[1].result.service
    assert service is not None and service.transfers is not None
    return list(zip(service.transfers.start.tolist(), service.transfers.end.tolist(), strict=True))


@pytest.mark.parametrize("over", [1.0, 4.0])
def test_jobs_on_the_halves_of_a_fat_tree_are_as_alone(library: str, over: float) -> None:
    """Three levels, each job in a pod of its own: all its links are its own, so that each step takes, to the tick, what
    it takes in a run without the other; on nodes that cross the pods it does not."""
    levels = [machines.level(name, size, over, "600 ns") for name, size in (("leaf", 2), ("pod", 4), ("core", 8))]
    on = together.cluster(8, 8, {"kind": "tree", "levels": levels}).model_copy(update={"collectives": library})
    halves = [[0, 1, 2, 3], [4, 5, 6, 7]], [[0, 4, 2, 6], [1, 5, 3, 7]]
    for (first, second), own in zip(halves, (True, over == 1.0), strict=True):
        listed = trains("first", first, steps=2), trains("second", second, batch=8, steps=3)
        both = together.run(together.scenario(*listed, on=on))
        for job in listed:
            solo = together.run(together.scenario(job, on=on)).trainers[job.name]
            beside = both.trainers[job.name]
            assert beside.meets != own
            equal = [
                one.end.tolist() == other.end.tolist() and begin == before
                for (begin, one), (before, other) in zip(together.steps(beside), together.steps(solo), strict=True)
            ]
            assert all(equal) if own else not all(equal)
