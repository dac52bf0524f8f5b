"""Which devices each of several jobs gets.

Jobs that name theirs are placed first, the others in the order in which they are listed. Where a job needs less than a
node it lies in one node, otherwise on whole nodes; one that serves may leave the rest of its last node to others. Of
several kinds of nodes a job takes the one that it names or the first with room; pools of a service may name others.
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
    numbering = cluster.numbering
    free = [list(numbering.devices_of(node)) for node in range(numbering.all_nodes)]
    found: dict[int, Devices] = {}
    open_ones = _open(jobs)
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


def _open(jobs: Sequence[AnyJob]) -> list[int]:
    """Jobs that take what the others leave of their kind of nodes; InputError for two that would take the same."""
    found: list[int] = []
    for i, job in enumerate(jobs):
        if not isinstance(job, TrainingJob) or not isinstance(job.placement, str) or job.nodes is not None:
            continue
        if job.training.parallel.dp is None:
            rivals = [j for j in found if job.partition is None or jobs[j].partition in (None, job.partition)]
            if rivals:
                message = f"`{jobs[rivals[0]].name}` and `{job.name}` leave open how many devices they take"
                hint = "write `nodes`, or `training.parallel.dp`: only one job may take what the others leave"
                raise InputError(Problem(message, path=f"jobs.{i}.nodes", hint=hint))
            found.append(i)
    return found


def _needs(job: AnyJob, cluster: Cluster, path: str) -> dict[int | None, int | None]:
    """Devices that a job needs by kind of nodes; the kind is None where it is left open, the number where it takes what
    is left."""
    if isinstance(job, TrainingJob):
        kind = None if job.partition is None else cluster.kind(job.partition, f"{path}.partition")
        if job.training.parallel.dp is None:
            return {kind: None}
        sizes = job.training.parallel.sizes()
        return {kind: prod(sizes.get(axis.name) or 1 for axis in mesh_axes() if not axis.folded)}
    found: dict[int | None, int | None] = {}
    for pool in job.serving.all_pools:
        of_pool, kind = job.system.home(pool, cluster)
        if of_pool is cluster:
            of_kind = kind if job.names_nodes else None
            layout = pool.parallel or job.serving.parallel
            found[of_kind] = (found.get(of_kind) or 0) + pool.replicas * layout.ranks * layout.devices
    return found or {None: 0}


def _named(place: Place, cluster: Cluster, others: Mapping[str, Devices], path: str) -> Devices:
    """Devices that a job names."""
    numbering = cluster.numbering
    word, named, most = ("node", place.nodes, numbering.all_nodes) if place.nodes else ("device", place.devices, None)
    most = cluster.devices if most is None else most
    path = f"{path}.placement.{word}s"
    for one in named:
        if one >= most:
            message = f"there is no {word} {one}: the cluster has {most:,}, from 0 on"
            raise InputError(Problem(message, path=path, hint=f"at most {most - 1}"))
    devices = place.devices or tuple(device for node in place.nodes for device in numbering.devices_of(node))
    for name, taken in others.items():
        if both := sorted(set(devices) & set(taken)):
            where = f"device {both[0]}" if place.devices else f"node {numbering.node_of(both[0])}"
            raise InputError(Problem(f"{where} belongs to job `{name}` already", path=path, hint="choose another"))
    return devices


def _chosen(job: AnyJob, how: str, cluster: Cluster, free: Nodes, seed: int, path: str) -> Devices:
    """Devices that a placement chooses for a job, kind of nodes after kind."""
    needs = _needs(job, cluster, path)
    if job.nodes is not None and len(needs) > 1:
        message = "`nodes` counts nodes of one kind, and its pools lie on several"
        raise InputError(Problem(message, path=f"{path}.nodes", hint="leave it out"))
    found: list[int] = []
    for kind, wanted in needs.items():
        refused: list[InputError] = []
        for one in range(cluster.numbering.kinds) if kind is None else (kind,):
            try:
                found += _on_kind(job, how, cluster, one, wanted, free, seed, path)
                break
            except InputError as error:
                refused.append(error)
        else:
            raise refused[0]
    return tuple(found)


def _on_kind(
    job: AnyJob, how: str, cluster: Cluster, kind: int, wanted: int | None, free: Nodes, seed: int, path: str
) -> Devices:
    """Devices of nodes of one kind."""
    numbering = cluster.numbering
    per_node, nodes = numbering.per_node[kind], range(*numbering.first_node[kind : kind + 2])
    wanted = wanted if job.nodes is None else job.nodes * per_node
    whole = [node for node in nodes if len(free[node]) == per_node]
    if wanted is None:
        if not whole:
            raise _too_large(f"job `{job.name}` finds no free node", cluster, free, path)
        return tuple(device for node in whole for device in free[node])
    if wanted < per_node:
        roomy = [node for node in nodes if len(free[node]) >= wanted]
        if not roomy:
            raise _too_large(f"job `{job.name}` needs {wanted} devices of one node", cluster, free, path)
        node = HOW[how](roomy, 1, seed, job.name)[0]
        return tuple(free[node][:wanted])
    count = -(-wanted // per_node)
    if isinstance(job, TrainingJob) and wanted % per_node:
        message = f"{wanted} devices are no whole number of nodes of {per_node}"
        hint = "change the layout, or name the job's `placement: {devices: [...]}`"
        raise InputError(Problem(message, path=f"{path}.training.parallel", hint=hint))
    if len(whole) < count:
        raise _too_large(f"job `{job.name}` needs {count} whole nodes", cluster, free, path)
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


def _too_large(message: str, cluster: Cluster, free: Nodes, path: str) -> InputError:
    numbering = cluster.numbering
    ranges = [range(*numbering.first_node[kind : kind + 2]) for kind in range(numbering.kinds)]
    left = [sum(len(free[node]) for node in nodes) for nodes in ranges]
    said = f"{left[0]} devices are left"
    if cluster.more_nodes:
        each = (f"{count} devices of `{part.name}`" for count, part in zip(left, cluster.partitions, strict=True))
        said = f"{' and '.join(each)} are left"
    return InputError(Problem(f"{message}, and {said}", path=path, hint="raise `cluster.nodes`, or give jobs less"))


def _check_enough(job: AnyJob, devices: Devices, cluster: Cluster, path: str) -> None:
    """Refuse a job that needs more than it was given, and one that trains on nodes of different parts."""
    numbering = cluster.numbering
    given = [sum(device in numbering.of_kind(kind) for device in devices) for kind in range(numbering.kinds)]
    if isinstance(job, ServingJob):
        for kind, needs in _needs(job, cluster, path).items():
            have = given[kind if kind is not None else numbering.kind_of(devices[0])] if devices else 0
            if needs is not None and needs > have:
                of = f" of `{cluster.partitions[kind].name}`" if kind is not None and cluster.more_nodes else ""
                message = f"its replicas take {needs} devices{of}, and it is given {have}"
                hint = "give it more, or cut replicas or layout"
                raise InputError(Problem(message, path=f"{path}.serving", hint=hint))
        return
    names = [part.name for part, count in zip(cluster.partitions, given, strict=True) if count]
    if len(names) > 1 or (job.partition is not None and names != [job.partition]):
        lies = " and ".join(f"`{name}`" for name in names)
        message = f"a job that trains lies on nodes of one kind, and this one is given {lies}"
        raise InputError(Problem(message, path=f"{path}.placement", hint="give it nodes of one of them"))
    counts = set(np.unique([numbering.node_of(device) for device in devices], return_counts=True)[1].tolist())
    if len(counts) > 1:
        message = f"it has {min(counts)} devices of one node and {max(counts)} of another"
        raise InputError(Problem(message, path=f"{path}.placement", hint="give it as many of each node"))
