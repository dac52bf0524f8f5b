"""Small scenarios of several jobs on one cluster, for tests, and what must hold of every run of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from simulator import units
from simulator.engine.load import Counts, Load
from simulator.engine.tape import Timeline
from simulator.results.result import Result
from simulator.run.dispatch import simulate
from simulator.run.jobs.parts import as_serving, as_training
from simulator.run.jobs.placing import place
from simulator.run.jobs.simulate import Together
from simulator.run.jobs.training import Trainer
from simulator.specs.hardware import Cluster, Network, ScaleUp
from simulator.specs.jobs import AnyJob, JobsScenario, ServingJob, TrainingJob
from simulator.specs.requests import Requests
from simulator.specs.serving import Serving, ServingStack
from simulator.specs.training import Parallel, Training
from tests import jobs, machines
from tests.jobs import shipped

FULL = 1e-6
"""Relative excess of a rate over a capacity that is rounding."""


def tree(oversubscription: float = 4.0, leaf: int = 2, nodes: int = 8, rails: bool = False) -> dict[str, Any]:
    """Leaves whose switches pass a part of what comes from below."""
    levels = [machines.level("leaf", leaf, oversubscription, "600 ns"), machines.level("spine", nodes, 1.0, "600 ns")]
    return {"kind": "tree", "levels": levels, "rail_optimised": rails}


def cluster(nodes: int = 4, devices: int = 8, network: dict[str, Any] | None = None, **changes: Any) -> Cluster:
    """Servers of A100 on a network; on leaves of two where nothing is said."""
    found = jobs.cluster(nodes, devices)
    node = found.node.model_copy(update=changes)
    return found.model_copy(update={"node": node, "network": Network.model_validate(network or tree())})


def trains(
    name: str = "one",
    *,
    placement: Any = "packed",
    batch: int = 16,
    sequence: int = 256,
    steps: int = 1,
    software: Any = None,
    training: dict[str, Any] | None = None,
    of_job: dict[str, Any] | None = None,
    **parallel: Any,
) -> TrainingJob:
    """A job that trains; keywords that are not listed are sizes of the mesh."""
    work = Training(
        global_batch=batch,
        micro_batch=1,
        sequence_length=sequence,
        steps=steps,
        parallel=Parallel(**parallel),
        **(training or {}),
    )
    own: dict[str, Any] = {"model": jobs.model(), "stack": software or jobs.stack("megatron-core"), "training": work}
    return TrainingJob(name=name, placement=placement, **own, **(of_job or {}))


def serves(
    name: str = "service",
    *,
    placement: Any = "packed",
    count: int = 12,
    rate: str = "40 /s",
    prompt: int = 2000,
    output: int = 20,
    leap: bool = True,
    of_job: dict[str, Any] | None = None,
    **system: Any,
) -> ServingJob:
    """A job that serves requests of one length; keywords that are not listed are of its `serving`."""
    asked = {"arrivals": {"poisson": rate}, "lengths": {"prompt": {"fixed": prompt}, "output": {"fixed": output}}}
    own: dict[str, Any] = {
        "model": jobs.model(max_sequence=8192),
        "stack": shipped(ServingStack, "vllm"),
        "serving": Serving.model_validate(system),
        "requests": Requests.model_validate(asked | {"count": count}),
        "leap": leap,
    }
    return ServingJob(name=name, placement=placement, **own, **(of_job or {}))


def apart(tp: int = 8) -> dict[str, Any]:
    """A pool for prompts and one for answers, of one replica each."""
    pools = [{"name": n, "role": r, "parallel": {"tp": tp}} for n, r in (("prompts", "prefill"), ("answers", "decode"))]
    return {"pools": pools}


def scenario(*listed: AnyJob, on: Cluster | None = None, seed: int = 0, **changes: Any) -> JobsScenario:
    """Jobs on one cluster."""
    return JobsScenario(version=1, name="test", cluster=on or cluster(), jobs=listed, seed=seed, **changes)


def host_bus(nodes: int = 1) -> Cluster:
    """Workstations whose devices all talk over one host bus."""
    scale_up = {"kind": "host", "bandwidth": machines.figure("20 GB/s"), "latency": machines.figure("1 us")}
    return cluster(nodes, 8, tree() if nodes > 1 else {"kind": "none"}, scale_up=ScaleUp.model_validate(scale_up))


def run(asked: JobsScenario, fold: Any = None) -> Together:
    """The jobs when all have ended; what any link carried is written down in full."""
    ran = Together(asked, place(asked), fold)
    clock = ran.site.clock

    def record(resources: object, most: int, counts: Counts) -> Load:
        clock.fluid.record = Load(clock.fluid, None, 1_000_000, counts)
        return clock.fluid.record

    clock.record = record  # type: ignore[assignment, method-assign]
    ran.run(None)
    return ran


def plain(job: AnyJob, asked: JobsScenario, nodes: int) -> Result:
    """A job as a scenario of its own, on a cluster of so many nodes that it has for itself."""
    on = asked.model_copy(update={"cluster": asked.cluster.model_copy(update={"nodes": nodes})})
    devices = tuple(range(nodes * asked.cluster.node.devices))
    alone = as_training(job, devices, on) if isinstance(job, TrainingJob) else as_serving(job, devices, on)
    return simulate(alone)


# ---- what links carry, found from the times of operations --------------------------------------------------------


class Sent(NamedTuple):
    """Bytes on links between two moments, evenly."""

    job: int
    start: int
    stop: int
    rate: Any
    """Share of the capacity of each link; shape (links,)."""


def sent(ran: Together) -> Iterator[Sent]:
    """What the counted steps of trainings put on links, but for what is an activity there."""
    everything = np.arange(len(ran.site.fabric.capacity))
    for job, trainer in enumerate(ran.trainers.values()):
        traffic, program = trainer.traffic, trainer.lowered.program
        on = traffic.senders.on(everything)
        for sender in traffic.senders.all:
            lasts = program.contents[sender.content].ticks
            share = on.asked(sender)[0] / ran.site.clock.fluid.capacity[: len(everything)]
            if trainer.meets and sender.whole:
                share[[link for link in everything if ran.alike.get(link, link) in trainer.links]] = 0.0
            for operation in sender.operations.tolist() if share.any() else ():
                for begin, timeline in steps(trainer):
                    first, stop = int(timeline.start[operation]), int(timeline.end[operation])
                    start = first + lasts - sender.moving if sender.whole else first
                    yield Sent(job, begin + start, begin + stop, share / max(stop - start, 1))


def steps(trainer: Trainer) -> list[tuple[int, Timeline]]:
    """When each counted step began, and its operations."""
    if trainer.meets:
        return list(zip(trainer.begun, trainer.steps, strict=True))
    first, each = units.to_ticks(trainer.spec.start), trainer.own.timeline
    return [(first + i * each.makespan, each) for i in range(trainer.spec.training.steps)]


def most_together(ran: Together) -> float:
    """The most that any link carries of its capacity while several jobs send over it."""
    pieces, names, found = list(sent(ran)), [*ran.trainers, *(job.name for job in ran.jobs)], 0.0
    for link, whole in enumerate(ran.site.clock.fluid.capacity[: len(ran.site.fabric.capacity)]):
        rows = [(piece.job, piece.start, piece.stop, piece.rate[link]) for piece in pieces if piece.rate[link]]
        for span in ran.load.of(link):
            for label, rate in span.by.items():
                rows.append((names.index(label[0]), span.start, span.stop, rate / whole))  # type: ignore[index]
        if rows:
            job, start, stop, rates = (np.array(column) for column in zip(*rows, strict=True))
            moments, place_ = np.unique(np.concatenate([start, stop]), return_inverse=True)
            change = np.zeros((len(names), len(moments)))
            np.add.at(change, (np.tile(job, 2), place_.reshape(-1)), np.concatenate([rates, -rates]))
            each = np.cumsum(change, axis=1)
            several = (each > FULL).sum(axis=0) > 1
            found = max(found, each.sum(axis=0)[several].max(initial=0.0))
    return float(found)


def carried(ran: Together, job: Trainer) -> list[float]:
    """Bytes that each of the links on which a job runs carried for it."""
    spans = ([(s.stop - s.start, s.by.items()) for s in ran.load.of(link)] for link in job.links.tolist())
    return [sum(lasts * rate for lasts, by in each for label, rate in by if label[0] == job.name) for each in spans]  # type: ignore[index]


def to_carry(job: Trainer) -> list[float]:
    """The same from what its operations have to send in all steps, but for passes that run as one: they meet nobody."""
    total, on = np.zeros(len(job.links)), job.traffic.senders.on(job.links)
    for sender in job.traffic.senders.whole:
        total += on.asked(sender)[0] * len(sender.operations)
    return (total * job.spec.training.steps).tolist()  # type: ignore[no-any-return]
