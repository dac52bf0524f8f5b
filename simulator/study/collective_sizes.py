"""A collective over sizes: columns of nccl-tests, what bounds each size, other algorithms, measured times beside."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator import collectives, fabric
from simulator.collectives import token_bytes
from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.custom_all_reduce import check_engine, custom_seconds, kernels_of, moving_share, shots
from simulator.errors import InputError, Problem
from simulator.interop.nccl_tests import NcclLog
from simulator.interop.rows.network import bus_factor
from simulator.results.documents.collective import CollectiveCurve, CollectiveSweepDocument, SizedCollective
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile, CustomAllReduce, Environment
from simulator.specs.resolve import load_spec
from simulator.units import TICKS_PER_SECOND

LIBRARY = "library"
"""Name of the curve of what the library takes."""
DTYPES = {"float": 4, "half": 2, "bfloat16": 2, "double": 8, "int8": 1, "uint8": 1, "int32": 4, "int64": 8}
"""Types of nccl-tests and their bytes."""
MOST_RANKS = 1 << 20
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AskedSizes:
    """What to price."""

    cluster: str
    operation: str
    sizes: tuple[float, ...]
    groups: tuple[tuple[int, ...], ...] = ()
    """Ranks of each group; empty: one group of the first `ranks`."""
    ranks: int | None = None
    nodes: int | None = None
    """Of the cluster; None: as many as the ranks need."""
    algorithm: str = "auto"
    all_algorithms: bool = False
    environment: Environment | None = None
    dtype: str = "float"
    log: tuple[str, NcclLog] | None = None
    """(file, what it says): measured times by size."""
    form: str | None = None
    """Format in which elements travel, with its scales (one of `TOKEN_FORMATS`); None: as they are. Kernels that
    convert them are left out."""
    engine: str = ""
    """Of a serving engine, whose own kernels sum where it runs them; empty: the library's."""

    @property
    def narrowed(self) -> float:
        """Bytes on the way over those of the message."""
        if self.form is None:
            return 1.0
        return token_bytes(1, self.form) / DTYPES.get(self.dtype, 4)


def sweep(asked: AskedSizes) -> CollectiveSweepDocument:
    """Every size with nothing else on the fabric; InputError where it cannot be."""
    asked = replace(asked, operation=collectives.operation_of(asked.operation))
    collectives.check_operation(asked.operation)
    asked = _converted(asked)
    cluster, machine, groups = machine_of(asked)
    profile = load_spec(CollectiveProfile, cluster.collectives)
    if asked.environment is not None:
        profile = profile.model_copy(update={"environment": asked.environment.over(profile.environment)})
    if asked.engine:
        check_engine(asked.engine, profile, asked.algorithm)
    own = _curve(LIBRARY if asked.algorithm == "auto" else asked.algorithm, asked, groups, machine, profile)
    others = _others(asked, groups, machine, profile) if asked.all_algorithms else ()
    return CollectiveSweepDocument(
        operation=asked.operation,
        cluster=cluster.name,
        library=f"kernels of {asked.engine}, {profile.name}" if asked.engine else profile.name,
        ranks=groups.shape[1],
        groups=len(groups),
        nodes=len({machine.numbering.node_of(rank) for rank in groups[0].tolist()}),
        dtype=asked.dtype if asked.form is None else f"{asked.dtype}, sent as {asked.form}",
        curves=(_measured(own, asked), *others),
        log=asked.log[0] if asked.log else "",
        refused=tuple(str(one) for one in asked.log[1].refused) if asked.log else (),
    )


def _converted(asked: AskedSizes) -> AskedSizes:
    """What is asked, with the algorithm that sums what travels in another format; InputError where none does.

    A ring would convert partial sums at every step; direct transfers convert each part once a way (ZeRO++'s
    all-to-all, arXiv:2306.10209).
    """
    if asked.engine and asked.form is not None:
        raise InputError(Problem(f"kernels of `{asked.engine}` send elements as they are", hint="leave `--format` out"))
    if asked.form is None or asked.operation not in ("all_reduce", "reduce_scatter"):
        return asked
    if asked.all_algorithms or asked.algorithm.partition("/")[0] not in ("auto", "direct"):
        message = f"sums of elements that travel as `{asked.form}` are made by direct transfers only"
        raise InputError(Problem(message, hint="leave the algorithm out"))
    return asked if asked.algorithm != "auto" else replace(asked, algorithm="direct")


def machine_of(asked: AskedSizes) -> tuple[Cluster, fabric.Fabric, Ints]:
    """(cluster with the nodes that are asked for, its fabric, ranks of groups); InputError where these do not fit."""
    cluster = load_spec(Cluster, asked.cluster)
    last = max((rank for group in asked.groups for rank in group), default=(asked.ranks or 1) - 1)
    nodes = asked.nodes
    if nodes is None and not cluster.more_nodes:
        nodes = max(cluster.nodes, -(-(last + 1) // cluster.node.devices))
    if nodes is not None:
        cluster = cluster.model_copy(update={"nodes": nodes})
    machine = fabric.build(cluster)
    if last >= machine.devices:
        raise InputError(Problem(f"there is no rank {last:,} of {machine.devices:,} devices", hint="raise `--nodes`"))
    groups = np.asarray(asked.groups or (tuple(range(asked.ranks or machine.devices)),), np.int64)
    if groups.shape[1] < 2:
        raise InputError(Problem("one rank has no other to send to", hint="raise `--ranks` or `--nodes`"))
    return cluster, machine, groups


def parse_groups(text: str) -> tuple[tuple[int, ...], ...]:
    """Groups of ranks, such as `0-7`, `0-56:8`, `0,3,5`, several as `0-7/8-15`; ValueError where that is none.

    Ranks are whole numbers that no two places repeat; groups are equally long, of two ranks and more.
    """
    groups = tuple(_parse_group(part) for part in text.split("/"))
    every = [rank for group in groups for rank in group]
    twice = next((rank for rank in every if every.count(rank) > 1), None) if len(set(every)) < len(every) else None
    if twice is not None:
        raise ValueError(f"rank {twice} stands in it twice")
    if len({len(group) for group in groups}) > 1 or len(groups[0]) < 2:
        raise ValueError("groups must be equally long, of two ranks or more")
    return groups


def _parse_group(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        low, dash, high = span.partition("-")
        numbers = [low, *([high] if dash else []), *([step] if step else [])]
        if not all(number.isascii() and number.isdigit() and len(number) < 8 for number in numbers):
            raise ValueError(f"{part[:40]!r} is no rank and no span of ranks such as 0-7 or 0-56:8")
        if int(high or low) < int(low) or int(step or 1) < 1 or int(high or low) >= MOST_RANKS:
            raise ValueError(f"{part[:40]!r} is no span of ranks below {MOST_RANKS:,}")
        found += range(int(low), int(high or low) + 1, int(step or 1))
    return tuple(found)


def _curve(
    name: str, asked: AskedSizes, groups: Ints, machine: fabric.Fabric, profile: CollectiveProfile
) -> CollectiveCurve:
    algorithm = "auto" if name == LIBRARY else name
    return CollectiveCurve(
        name, tuple(_sized(size, algorithm, asked, groups, machine, profile) for size in asked.sizes)
    )


def _by_engine(
    size: float, asked: AskedSizes, groups: Ints, machine: fabric.Fabric, own: CustomAllReduce
) -> SizedCollective:
    """One size by an engine's own kernels, which all groups run alike."""
    group = tuple(groups[0].tolist())
    total = custom_seconds(size, group, machine, own)
    moving = total * moving_share(size, group, machine, own)
    return SizedCollective(
        size_bytes=size,
        count=int(size // DTYPES.get(asked.dtype, 4)),
        time_s=total,
        algbw_bytes_per_s=size / total,
        busbw_bytes_per_s=size / total * bus_factor(asked.operation, len(group)),
        algorithm=shots(size, group, machine, own),
        protocol=asked.engine,
        bound="scale-up" if moving > total - moving else "launch",
        launch_s=total - moving,
        hops_s=0.0,
        moving_s=moving,
    )


def _others(
    asked: AskedSizes, groups: Ints, machine: fabric.Fabric, profile: CollectiveProfile
) -> tuple[CollectiveCurve, ...]:
    """Every algorithm that can do this under every protocol that serves it, those of the library first."""
    own = profile.algorithms.get(asked.operation, ())  # type: ignore[call-overload]
    names = dict.fromkeys((*own, *ALGORITHMS.names()))
    found = []
    for name in names:
        for protocol in profile.protocols_of(name):
            try:
                found.append(_curve(f"{name}/{protocol}", asked, groups, machine, profile))
            except InputError:  # it cannot do this operation, or not over these ranks
                break
    return tuple(found)


def _sized(
    size: float,
    algorithm: str,
    asked: AskedSizes,
    groups: Ints,
    machine: fabric.Fabric,
    profile: CollectiveProfile,
) -> SizedCollective:
    group = tuple(groups[0].tolist())
    if algorithm == "auto" and (own := kernels_of(profile, asked.engine, size, group, machine)):
        return _by_engine(size, asked, groups, machine, own)
    cost = collectives.cost_of(asked.operation, groups, size * asked.narrowed, machine, profile, algorithm)
    worst = int(np.argmax(cost.ticks))
    choice, _ = cost.plan.choice(worst)
    total, moving = cost.slowest / TICKS_PER_SECOND, int(cost.moving[worst]) / TICKS_PER_SECOND
    parts = {"launch": choice.rate.launch, "hops": max(0.0, total - moving - choice.rate.launch)}
    kind = int(cost.bottleneck[worst])
    link = machine.kinds[kind] if kind >= 0 else "links"
    bound = max(parts, key=lambda part: parts[part])
    return SizedCollective(
        size_bytes=size,
        count=int(size // DTYPES.get(asked.dtype, 4)),
        time_s=total,
        algbw_bytes_per_s=size / total,
        busbw_bytes_per_s=size / total * bus_factor(asked.operation, groups.shape[1]),
        algorithm=choice.algorithm,
        protocol=choice.protocol,
        bound=link if moving > parts[bound] else bound,
        launch_s=parts["launch"],
        hops_s=parts["hops"],
        moving_s=moving,
    )


def _measured(curve: CollectiveCurve, asked: AskedSizes) -> CollectiveCurve:
    """The curve with the measured times of a log beside it."""
    if asked.log is None:
        return curve
    known = {one.size_bytes: one.time_s for one in asked.log[1].sizes}
    return replace(curve, sizes=tuple(_beside(one, known.get(one.size_bytes)) for one in curve.sizes))


def _beside(one: SizedCollective, seconds: float | None) -> SizedCollective:
    return one if seconds is None else replace(one, measured_s=seconds, error=one.time_s / seconds - 1)


def powers(low: float, high: float, factor: float = 2.0) -> tuple[float, ...]:
    """Sizes from `low` to `high`, each the last times `factor`, as nccl-tests' -b, -e and -f give them."""
    found: Sequence[float] = [low * factor**i for i in range(64) if low * factor**i <= high * (1 + 1e-9)]
    return tuple(found)
