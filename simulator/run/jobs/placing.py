"""Which devices each of several jobs gets.

Jobs that name theirs are placed first, the others in the order in which they are listed. Where a job needs less than a
node it lies in one node, otherwise on whole nodes; one that serves may leave the rest of its last node to others.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from simulator.axes import mesh_axes
from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.specs.hardware import Cluster
from simulator.specs.jobs import AnyJob, JobsScenario, Place, ServingJob, TrainingJob

Devices = tuple[int, ...]
Nodes = Sequence[list[int]]
"""Free devices of each node."""


def place(scenario: JobsScenario) -> tuple[Devices, ...]:
    """The devices of each job in the order of its ranks; InputError where they are not there or taken."""
    cluster, jobs = scenario.cluster, scenario.jobs
    per_node = cluster.node.devices
    free = [list(range(node * per_node, (node + 1) * per_node)) for node in range(cluster.nodes)]
    found: dict[int, Devices] = {}
    open_ones = [i for i, job in enumerate(jobs) if isinstance(job.placement, str) and _wanted(job, cluster) is None]
    if len(open_ones) > 1:
        names = " and ".join(f"`{jobs[i].name}`" for i in open_ones[:2])
        message = f"{names} leave open how many devices they take"
        hint = "write `nodes`, or `training.parallel.dp`: only one job may take what the others leave"
        raise InputError(Problem(message, path=f"jobs.{open_ones[1]}.nodes", hint=hint))
    order = sorted(range(len(jobs)), key=lambda i: (isinstance(jobs[i].placement, str), i in open_ones, i))
    for i in order:
        job, path = jobs[i], f"jobs.{i}"
        named = job.placement
        if isinstance(named, Place):
            found[i] = _named(named, cluster, {jobs[j].name: found[j] for j in found}, path)
        else:
            found[i] = _chosen(job, named, cluster, free, scenario.seed, path)
        taken = set(found[i])
        for node in free:
            node[:] = [device for device in node if device not in taken]
        _check_enough(job, found[i], cluster, path)
    return tuple(found[i] for i in range(len(jobs)))


def _wanted(job: AnyJob, cluster: Cluster) -> int | None:
    """Devices that a job needs; None where it takes what is left."""
    if job.nodes is not None:
        return job.nodes * cluster.node.devices
    if isinstance(job, ServingJob):
        serving = job.serving
        shared = [pool for pool in serving.pools if pool.cluster is None]
        if serving.pools:
            return sum(pool.replicas * (pool.parallel or serving.parallel).devices for pool in shared)
        return serving.replicas * serving.parallel.devices
    if job.training.parallel.dp is None:
        return None
    sizes = job.training.parallel.sizes()
    return prod(sizes.get(axis.name) or 1 for axis in mesh_axes())


def _named(place: Place, cluster: Cluster, others: Mapping[str, Devices], path: str) -> Devices:
    """Devices that a job names."""
    per_node = cluster.node.devices
    word, named, most = ("node", place.nodes, cluster.nodes) if place.nodes else ("device", place.devices, None)
    most = cluster.devices if most is None else most
    path = f"{path}.placement.{word}s"
    for one in named:
        if one >= most:
            message = f"there is no {word} {one}: the cluster has {most:,}, from 0 on"
            raise InputError(Problem(message, path=path, hint=f"at most {most - 1}"))
    devices = place.devices or tuple(node * per_node + i for node in place.nodes for i in range(per_node))
    for name, taken in others.items():
        if both := sorted(set(devices) & set(taken)):
            where = f"device {both[0]}" if place.devices else f"node {both[0] // per_node}"
            raise InputError(Problem(f"{where} belongs to job `{name}` already", path=path, hint="choose another"))
    return devices


def _chosen(job: AnyJob, how: str, cluster: Cluster, free: Nodes, seed: int, path: str) -> Devices:
    """Devices that a placement chooses for a job."""
    per_node, left = cluster.node.devices, sum(map(len, free))
    wanted = _wanted(job, cluster)
    whole = [node for node, devices in enumerate(free) if len(devices) == per_node]
    if wanted is None:
        if not whole:
            raise _too_large(f"job `{job.name}` finds no free node", left, path)
        return tuple(device for node in whole for device in free[node])
    if wanted < per_node:
        roomy = [node for node, devices in enumerate(free) if len(devices) >= wanted]
        if not roomy:
            raise _too_large(f"job `{job.name}` needs {wanted} devices of one node", left, path)
        node = HOW[how](roomy, 1, seed, job.name)[0]
        return tuple(free[node][:wanted])
    count = -(-wanted // per_node)
    if isinstance(job, TrainingJob) and wanted % per_node:
        message = f"{wanted} devices are no whole number of nodes of {per_node}"
        hint = "change the layout, or name the job's `placement: {devices: [...]}`"
        raise InputError(Problem(message, path=f"{path}.training.parallel", hint=hint))
    if len(whole) < count:
        raise _too_large(f"job `{job.name}` needs {count} whole nodes", left, path)
    chosen = HOW[how](whole, count, seed, job.name)
    return tuple(device for node in chosen for device in free[node])[:wanted]


def _packed(nodes: Sequence[int], count: int, seed: int, name: str) -> list[int]:
    """The first ones."""
    return list(nodes[:count])


def _spread(nodes: Sequence[int], count: int, seed: int, name: str) -> list[int]:
    """At equal distances among them."""
    return [nodes[i * len(nodes) // count] for i in range(count)]


def _random(nodes: Sequence[int], count: int, seed: int, name: str) -> list[int]:
    """Drawn, in order."""
    drawn = stream(seed, f"placement.{name}").permutation(len(nodes))[:count]
    return [nodes[i] for i in sorted(drawn.tolist())]


HOW: dict[str, Callable[[Sequence[int], int, int, str], list[int]]] = {
    "packed": _packed,
    "spread": _spread,
    "random": _random,
}
"""(free nodes, how many, seed, job) to nodes, by the name of the placement."""


def _too_large(message: str, left: int, path: str) -> InputError:
    said = f"{message}, and {left} devices are left"
    return InputError(Problem(said, path=path, hint="raise `cluster.nodes`, or give jobs less"))


def _check_enough(job: AnyJob, devices: Devices, cluster: Cluster, path: str) -> None:
    """Refuse a job that needs more than it was given, and one that trains on nodes of different parts."""
    if isinstance(job, ServingJob):
        needs = _wanted(job.model_copy(update={"nodes": None}), cluster)
        if needs is not None and needs > len(devices):
            message = f"its replicas take {needs} devices, and it is given {len(devices)}"
            raise InputError(Problem(message, path=f"{path}.serving", hint="give it more, or cut replicas or layout"))
        return
    counts = set(np.unique(np.array(devices) // cluster.node.devices, return_counts=True)[1].tolist())
    if len(counts) > 1:
        message = f"it has {min(counts)} devices of one node and {max(counts)} of another"
        raise InputError(Problem(message, path=f"{path}.placement", hint="give it as many of each node"))
