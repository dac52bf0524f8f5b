"""What can fail on a machine, how many there are of it, and how often it does."""

from collections.abc import Sequence

from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.fabric.outline import outline
from simulator.results.long_run import TICKS_PER_SECOND
from simulator.run.long.arrivals import PATH, Source
from simulator.specs.hardware import Cluster
from simulator.specs.long_runs.failures import Cause, FailureRates, Observed

CARDS = "NIC up"
"""Links that stand for network cards."""
_POINTS = ("node", "device", "NIC", "core")


def sources(rates: FailureRates | None, cluster: Cluster, fabric: Fabric, detection_s: float) -> list[Source]:
    """Causes on a machine, of which InputError names those that it does not have."""
    if rates is None:
        return []
    return [
        _source(cause, rates.observed, cluster, fabric, detection_s, f"{PATH}.causes.{number}")
        for number, cause in enumerate(rates.causes)
    ]


def mtbf_s(found: Sequence[Source]) -> float:
    """Mean time between failures that stop the run, in seconds; infinite where nothing stops it."""
    rate = sum(source.rate for source in found if source.left is None and not source.planned)
    return 1 / rate if rate else float("inf")


def _source(
    cause: Cause, observed: Observed | None, cluster: Cluster, fabric: Fabric, detection_s: float, path: str
) -> Source:
    units, first, per_node = _units(cause, cluster, fabric, path)
    if cause.mtbf is not None:
        each = 1 / cause.mtbf
    else:
        assert observed is not None and cause.count is not None
        over = {"device": observed.devices, "node": observed.nodes}.get(cause.of, 1)
        each = cause.count / (over * observed.days * 86_400)
    detection = detection_s if cause.detection is None else cause.detection
    ticks = round(detection * TICKS_PER_SECOND)
    return Source(cause.name, cause.of, units, first, each * units, per_node, cause.left, ticks, cause.planned)


def _units(cause: Cause, cluster: Cluster, fabric: Fabric, path: str) -> tuple[int, int, int]:
    """(units of a kind, number of the first, units by node where a failure takes a node out, else 0)."""
    if cause.of == "run":
        return 1, 0, 0
    if cause.of == "device":
        return cluster.devices, 0, 0 if cause.planned else cluster.node.devices
    if cause.of == "node":
        return cluster.nodes, 0, 0 if cause.planned else 1
    if cause.of == "link":
        return _links(cause.links or CARDS, cluster, fabric, path)
    switches = sum(point[0] not in _POINTS for point in outline(fabric).points) if cluster.nodes > 1 else 0
    if not switches:
        hint = "leave the cause out, or count it with nodes: `of: node`"
        raise InputError(Problem("the cluster has no switches of its own between nodes", path=f"{path}.of", hint=hint))
    return switches, 0, 0


def _links(kind: str, cluster: Cluster, fabric: Fabric, path: str) -> tuple[int, int, int]:
    if kind not in fabric.kinds:
        known = ", ".join(f"`{one}`" for one in fabric.kinds)
        message = f"the cluster has no links called `{kind}`"
        raise InputError(Problem(message, path=f"{path}.links", hint=f"known: {known}"))
    block = fabric.kinds.index(kind)
    stops = [*fabric.block_start[1:], len(fabric.capacity)]
    cards = cluster.node.nics
    first = fabric.block_start[block]
    return stops[block] - first, first, cards.count if kind.startswith("NIC") and cards else 0
