"""The published tuning model of a collective library, as typed data: what it plans with when it chooses.

A library knows its own tables and not the fabric's clock, so what it takes is not always what would be fastest. The
speeds of links are the library's own count for the machines of the profile: a scenario that changes a bandwidth changes
the clock and not the choice.
"""

from typing import Annotated, Literal

from pydantic import Field

from simulator.specs.base import Bandwidth, Count, PositiveFraction, Seconds, Spec

Share = Annotated[float, Field(gt=0)]
Nodes = tuple[Share, Share, Share]
"""A share on one node, on two, and on more."""
Caps = tuple[Bandwidth, Bandwidth, Bandwidth]
"""A bandwidth on one node, on two, and on more."""

Release = Annotated[str, Field(pattern=r"^\d{1,4}(\.\d{1,4}){1,3}$")]
"""Of a library, such as 2.26.2."""


def numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release, in their order; none of an empty word."""
    return tuple(int(part) for part in release.split(".") if part)


class TunerLinks(Spec):
    """Links as the library counts them."""

    scale_up: Bandwidth
    """Of a device inside its node."""
    scale_out: Bandwidth
    """Of a card."""
    up_steps: tuple[Bandwidth, ...] = Field(min_length=1)
    """Speeds of a channel that the search in a node tries, the highest first."""
    out_steps: tuple[Bandwidth, ...] = Field(min_length=1)
    """The same between nodes."""
    channels: Count
    """The most rings."""
    heads: Count
    """The most channels that reduce in the switch."""
    split: Bandwidth
    """Channels of this speed and more are split in two of half of it."""
    split_many: Bandwidth
    """More than four channels are split from this speed on."""


class TunerOption(Spec):
    """What the library expects of one algorithm under one protocol."""

    algorithm: Literal["ring", "tree", "nvls", "nvls_tree", "pat"]
    """Algorithm of the profile."""
    protocol: str
    """Protocol of the profile."""
    base: Seconds
    """Once per collective."""
    up_hop: Seconds
    """Of a hop inside a node; of `pat` of each member."""
    out_hop: Seconds
    """Of a hop between nodes; of `pat` of each doubling of the nodes."""
    lone_hop: Seconds | None = None
    """The same where each node has one member; None: as `out_hop`."""
    overhead: Seconds = 0.0
    """The least that a step of a ring across nodes takes."""
    plateau: Share = 1.0
    """Factor of the latency of large all-reduces across nodes."""
    share: Share = 1.0
    """Of the bus bandwidth that the channels have."""
    channel: Caps | None = None
    """What a channel carries at most."""
    protocol_share: Nodes = (1.0, 1.0, 1.0)
    """What the protocol leaves of that."""
    protocol_channel: Caps | None = None
    """What a channel carries at most under the protocol."""
    protocol_bus: Caps | None = None
    """What all channels carry at most under the protocol."""
    factor: PositiveFraction = 1.0
    """What is left after all limits."""
    correction: tuple[Share, ...] = ()
    """Factors of the bandwidth for messages of 64 bytes, 128 bytes and so on; 1 beyond the last."""
    plain: bool = Field(default=False, exclude_if=lambda plain: not plain)
    """Of what switches reduce: whether `share` of the slower of a channel's two links is all there is to it, of a half
    between more than two nodes, and steps of a ring do not count."""
    since: Release | None = Field(default=None, exclude_if=lambda since: since is None)
    """First release that expects this; None: all before, too."""
    before: Release | None = Field(default=None, exclude_if=lambda before: before is None)
    """First release that no longer does; None: the newest does."""

    def holds(self, release: str) -> bool:
        """Whether a release expects this; the newest is asked for by an empty word."""
        if not release:
            return self.before is None
        low, high = numbers(self.since or "0"), numbers(self.before or "") or (10**6,)
        return low <= numbers(release) < high


class Tuner(Spec):
    """How a library chooses between algorithms and protocols: the least latency + size / bandwidth by its tables."""

    source: str
    """Where the tables were read."""
    across_nodes: bool = True
    """Whether it chooses for groups of several nodes too; false where a plugin without published tables does."""
    links: TunerLinks
    """Links as the library counts them."""
    options: tuple[TunerOption, ...] = Field(min_length=1)
    """What it chooses from; other algorithms of the profile are taken by their modelled time."""
