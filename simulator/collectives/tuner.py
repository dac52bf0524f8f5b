"""The choice of a library by its own published model: latency + size / bandwidth, from tables and counts of links.

Channels: the search tries speeds from the highest on and keeps the first that fills most of a device's links, or gives
each card between nodes a channel; fast channels are then split in two. Two nodes let a tree run faster inside them than
between them, up to twice. Bandwidths of a ring are those of its bus divided by the steps; a tree has half. Formulas:
NVIDIA/nccl, src/graph/tuning.cc and search.cc; constants are data of the profile. What is left out: searches over
uneven links, several domains of switches, collective offload in the network.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simulator.specs.libraries.tuner import Tuner, TunerLinks, TunerOption

RATIOS = {"tree": 0.5, "pat": 1.0}
"""Bytes of a collective for those of its bus, of what is no ring."""
SMALLEST = 64
"""Bytes of the first correction, and of a piece per ring and member from which a plateau begins."""


class Group(NamedTuple):
    """What a library sees of a group."""

    members: int
    nodes: int
    cards: int
    """Cards of a node that its members use."""

    @property
    def on_node(self) -> int:
        """Members on a node, where they are spread evenly."""
        return max(1, self.members // self.nodes)


@dataclass(frozen=True, slots=True)
class Channels:
    """What the search finds for a kind of algorithm."""

    count: int
    inside: float
    """Bytes/s of one inside nodes."""
    between: float
    """Bytes/s of one between nodes."""


def chosen(tuner: Tuner, options: Sequence[TunerOption], operation: str, group: Group, size: float) -> TunerOption:
    """The option with the least expected time; the first of equals."""
    return min(options, key=lambda option: expected(tuner, option, operation, group, size))


def expected(tuner: Tuner, option: TunerOption, operation: str, group: Group, size: float) -> float:
    """Seconds that the library expects."""
    channels = _KINDS[option.algorithm](tuner.links, group)
    latency, bandwidth = _latency(option, operation, group), _bandwidth(option, operation, group, channels)
    if not bandwidth:
        return float("inf")
    place = int(size / SMALLEST).bit_length() - 1
    if 0 <= place < len(option.correction):
        bandwidth *= option.correction[place]
    if operation == "all_reduce" and group.nodes > 1 and size >= SMALLEST * channels.count * group.members:
        latency *= option.plateau
    return latency + size / bandwidth


def blocks(tuner: Tuner, algorithm: str, group: Group) -> int:
    """Blocks of threads of a ring or tree, one a multiprocessor: the search's channels are doubled when they are
    connected (src/graph/connect.cc). 0 for what is no ring or tree."""
    return 2 * _KINDS[algorithm](tuner.links, group).count if algorithm in ("ring", "tree") else 0


# ---- channels ----------------------------------------------------------------------------------------------------


def _rings(links: TunerLinks, group: Group) -> Channels:
    if group.nodes == 1:
        count, speed = _widest(links.up_steps, links.scale_up, links.channels)
        return _split(links, Channels(count, speed, speed), links.channels)
    count = min(group.cards, links.channels)
    speed = _at_most(links.out_steps, min(links.scale_out, _passing(links, count)))
    return _split(links, Channels(count, speed, speed), links.channels)


def _trees(links: TunerLinks, group: Group) -> Channels:
    """As many as rings; between two nodes those inside may be up to twice as fast as those between."""
    rings = _rings(links, group)
    if group.nodes == 1:
        return rings
    count = min(group.cards, links.channels)
    speed = inside = _at_most(links.out_steps, min(links.scale_out, _passing(links, count)))
    for faster in sorted(step for step in links.out_steps if step > speed):
        if inside >= 2 * speed or faster * count > links.scale_up:
            break
        inside = faster
    return _split(links, Channels(count, inside, speed), rings.count)


def _heads(links: TunerLinks, group: Group) -> Channels:
    """One head for each member of a node."""
    if group.nodes == 1:
        count = min(group.members, links.heads)
        speed = _at_most(links.up_steps, links.scale_up / count)
        return Channels(count, speed, speed)
    count = min(group.cards, links.heads)
    speed = _at_most(links.out_steps, min(links.scale_out, links.scale_up / count))
    return Channels(count, speed, speed)


def _widest(steps: Sequence[float], capacity: float, most: int) -> tuple[int, float]:
    """(channels, speed) of the search in a node: the first of the fullest."""
    found = [(min(int(capacity / step), most), step) for step in steps if step <= capacity]
    return max(found, key=lambda pair: pair[0] * pair[1], default=(1, capacity))


def _passing(links: TunerLinks, count: int) -> float:
    """Bytes/s that a device's links inside the node leave each of several channels: it passes on all of them but the
    one that leaves the node through its own card."""
    return links.scale_up / max(count - 1, 1)


def _at_most(steps: Sequence[float], capacity: float) -> float:
    return max((step for step in steps if step <= capacity), default=capacity)


def _split(links: TunerLinks, found: Channels, most: int) -> Channels:
    least = links.split if found.count <= 4 else links.split_many
    if found.inside < least or 2 * found.count > most:
        return found
    return Channels(2 * found.count, found.inside / 2, found.between / 2)


_KINDS: dict[str, Callable[[TunerLinks, Group], Channels]] = {
    "ring": _rings,
    "tree": _trees,
    "nvls": _heads,
    "nvls_tree": _heads,
    "pat": _rings,
}


# ---- latency and bandwidth ---------------------------------------------------------------------------------------


def _steps(operation: str, count: int) -> int:
    """Steps of a ring over as many members."""
    return {"all_reduce": 2 * (count - 1), "all_gather": count - 1, "reduce_scatter": count - 1}.get(operation, count)


def _latency(option: TunerOption, operation: str, group: Group) -> float:
    far = option.out_hop if group.on_node > 1 or option.lone_hop is None else option.lone_hop
    depth = group.nodes.bit_length() - 1
    if option.algorithm == "ring":
        near = max(option.up_hop, option.overhead if group.nodes > 1 else 0.0)
        crossing = _steps(operation, group.nodes) if group.nodes > 1 else 0
        return option.base + (_steps(operation, group.members) - crossing) * near + crossing * far
    if option.algorithm == "pat":
        return option.base + depth * far + group.members * option.up_hop
    if option.algorithm == "tree":
        return option.base + 2 * ((group.on_node - 1) * option.up_hop + depth * far)
    return option.base + option.up_hop + 2 * depth * far


def _bandwidth(option: TunerOption, operation: str, group: Group, channels: Channels) -> float:
    """Bytes of the collective a second."""
    where = min(group.nodes, 3) - 1
    if option.plain:
        between = channels.between / (1 if group.nodes <= 2 else 2)
        return channels.count * min(channels.inside, between) * option.share if channels.count > 1 else 0.0
    bus = _bus(option, group, channels, where) * option.protocol_share[where]
    if option.protocol_channel is not None:
        bus = min(bus, channels.count * option.protocol_channel[where])
    if option.protocol_bus is not None:
        bus = min(bus, option.protocol_bus[where])
    ratio = RATIOS.get(option.algorithm) or group.members / _steps(operation, group.members)
    return bus * option.factor * ratio


def _bus(option: TunerOption, group: Group, channels: Channels, where: int) -> float:
    """What the channels carry together before the protocol takes its part."""
    cap = option.channel[where] if option.channel is not None else float("inf")
    if option.algorithm in ("nvls", "nvls_tree"):
        # An all-reduce goes up and comes down at once; one channel's worth is lost to synchronisation.
        speed = 2 * channels.inside * option.share * (channels.count - 1) / channels.count
        if group.nodes > 1:
            speed = min(speed, channels.between * (2 if group.nodes == 2 else 1))
        return channels.count * min(speed, cap)
    speed = channels.inside if group.nodes <= 2 else channels.between
    return channels.count * min(option.share * speed, cap)
