"""A network as it is counted, written and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from simulator.results.documents.form import LEFT_OUT


@dataclass(frozen=True, slots=True)
class DrawnPoint:
    """A node, a device or a switch."""

    kind: str
    """`node`, `device`, or what the switch is called: `leaf`."""
    numbers: tuple[int, ...]
    """Of it among its kind: group, rail."""
    name: str
    """As people read it."""


@dataclass(frozen=True, slots=True)
class DrawnJoin:
    """What joins two points, one way."""

    start: int
    """Number of a point."""
    stop: int
    links: int
    """Parallel ones."""
    capacity: float
    """Bytes per second of all."""
    heat: float = 0.0
    """Share of the time of a collective, or of a step, in which its busiest link moves bytes."""


class Drawable(Protocol):
    """What is drawn of a network."""

    @property
    def cluster(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """As its profile has it: `tree`."""

    @property
    def nodes(self) -> int:
        """How many there are."""

    @property
    def collective(self) -> str:
        """What loads the links; empty: nothing."""

    @property
    def points(self) -> tuple[DrawnPoint, ...]:
        """Nodes, devices and switches."""

    @property
    def joins(self) -> tuple[DrawnJoin, ...]:
        """What joins them."""


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """A network and for how long the operations of a run use what joins its points."""

    cluster: str
    kind: str
    nodes: int
    collective: str
    """What loads the links: `one step`."""
    points: tuple[DrawnPoint, ...]
    joins: tuple[DrawnJoin, ...]


@dataclass(frozen=True, slots=True)
class HotLink:
    """A link that a collective loads."""

    name: str
    """As of the fabric: `leaf up 3`."""
    ends: str
    """From where to where."""
    bytes: float
    """What it carries."""
    busy_s: float
    """How long that takes at its full rate."""


@dataclass(frozen=True, slots=True)
class Bill:
    """What a network is bought of."""

    parts: str
    """Name of the profile."""
    switches: Mapping[str, int]
    """Boxes by kind of switch."""
    transceivers: int
    cards: int
    power_w: float
    """Switches, transceivers and cards together."""
    cost_usd: float
    """The same."""


@dataclass(frozen=True, slots=True)
class NetworkDocument:
    """A cluster's network."""

    cluster: str
    kind: str
    nodes: int
    devices: int
    policy: str
    """How flows choose among ways of equal length."""
    switches: Mapping[str, int]
    """By kind, as the network names them; parallel ones of a trunk count as one."""
    links: Mapping[str, int]
    """By kind, one way; those that no way uses are left out."""
    rates: Mapping[str, float]
    """Bytes per second of a link of each kind, of the slowest where they differ."""
    longest_way: int
    """Links between the devices that are furthest apart."""
    longest_way_s: float
    """Seconds of wire on it, software excluded."""
    injection: float
    """Bytes per second that all nodes send at most."""
    bisection: float | None = field(metadata=LEFT_OUT)
    """Bytes per second from the first half of the nodes to the other."""
    oversubscription: Mapping[str, float]
    """By kind of link: what comes from below over what it carries."""
    bill: Bill | None = field(metadata=LEFT_OUT)
    fastest: Mapping[str, float] = field(default_factory=dict)
    """Bytes per second of the quickest link of each kind."""
    ways: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Links by name of a way that was asked for, by part of the flow."""
    collective: str = ""
    """What loads the links."""
    hot: tuple[HotLink, ...] = ()
    """The busiest links first."""
    points: tuple[DrawnPoint, ...] = ()
    joins: tuple[DrawnJoin, ...] = ()
