"""What to look at where a run lasts longer than the clock of the simulation counts."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simulator import units
from simulator.errors import InputError, Problem
from simulator.specs.hardware import Cluster, Node
from simulator.specs.scenario import serves

if TYPE_CHECKING:
    from simulator.specs.scenario import OneScenario

SLOW = 1e6
"""Bytes or FLOPs per second below which no part of a machine is."""
LATE = 1.0
"""Seconds above which no latency of a machine is."""
_LIMIT = "the clock of the simulation counts 53 days"
_HALF_S = 2.0**61 / units.TICKS_PER_SECOND


def clock_overflow(scenario: "OneScenario", arrivals_s: float = 0.0) -> InputError:
    """The error, with the keys that are most likely the cause; `arrivals_s` is when the last request comes."""
    strange = list(_strange(scenario.cluster))
    if strange:
        said = "; ".join(f"`{path}` is {value}" for path, value in strange)
        message = f"the run lasts too long: {_LIMIT}"
        return InputError(Problem(message, path=strange[0][0], hint=f"{said}: is it meant?"))
    if not serves(scenario):
        hint = "cut `global_batch` or `sequence_length`, or look for a rate in `cluster` that is too low"
        return InputError(Problem(f"a step lasts too long: {_LIMIT}", path="training", hint=hint))
    requests = scenario.requests
    asked = f"`requests.count` (now {requests.count:,})" if requests.count is not None else "`requests.count`"
    if arrivals_s > _HALF_S:
        last = units.format(arrivals_s, "time")
        hint = f"raise the rate, or cut {asked}"
        return InputError(Problem(f"requests come for {last}, and {_LIMIT}", path="requests.arrivals", hint=hint))
    hint = f"cut {asked} or `requests.lengths`, shorten `think`, or look for a rate in `cluster` that is too low"
    return InputError(Problem(f"the run lasts too long: {_LIMIT}", path="requests", hint=hint))


def too_long() -> InputError:
    """The error for several jobs."""
    hint = "cut `steps` and `requests.count`, or look for a rate that is too low"
    return InputError(Problem(f"the jobs last too long: {_LIMIT}", path="jobs", hint=hint))


def _strange(cluster: Cluster) -> Iterator[tuple[str, str]]:
    """(path, value) of rates and latencies that no machine has."""
    for i, part in enumerate(cluster.partitions):
        yield from _strange_node(part.node, f"cluster.more_nodes.{i - 1}.node" if i else "cluster.node")


def _strange_node(node: Node, of_node: str) -> Iterator[tuple[str, str]]:
    """The same of one kind of nodes, at the path `of_node`."""
    device, inside, cards = node.accelerator, node.scale_up, node.nics
    rates = [("accelerator.memory.bandwidth", device.memory.bandwidth.value, "bandwidth")]
    rates += [(f"accelerator.peak.{name}", peak.value, "flop_rate") for name, peak in device.peak.items()]
    rates += [("scale_up.bandwidth", inside.bandwidth.value, "bandwidth")] if inside.bandwidth is not None else []
    rates += [("nics.bandwidth", cards.bandwidth.value, "bandwidth")] if cards is not None else []
    yield from ((f"{of_node}.{path}", units.format(rate, of)) for path, rate, of in rates if 0 < rate < SLOW)
    late = [("scale_up.latency", inside.latency), ("nics.latency", None if cards is None else cards.latency)]
    for path, figure in late:
        if figure is not None and figure.value > LATE:
            yield f"{of_node}.{path}", units.format(figure.value, "time")
