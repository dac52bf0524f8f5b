"""Memories below that of the devices in which blocks of keys and values outlive their request."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bandwidth, Bytes, Count, Fraction, Seconds, Spec

PATHS = {"host": "host", "cpu": "host", "ssd": "disk", "nvme": "disk", "disk": "disk", "store": "network"}
"""The way of a tier of that name where it says none."""


class CacheTier(Spec):
    """A memory in which blocks of prompts and answers stay when the memory of the devices needs its room."""

    aliases: ClassVar[dict[str, str]] = {"size": "capacity", "policy": "eviction", "write_policy": "write"}

    name: str = Field(min_length=1, max_length=40)
    """What reports call it. `host`, `ssd` and `store` have a `path` of their own."""
    capacity: Annotated[Bytes, Field(gt=0)]
    """Bytes of blocks that it holds: of each replica, or of all together where it is `shared`."""
    path: Literal["host", "disk", "network"] | None = None
    """What blocks travel over. `host`: the links between the devices of the replica and their hosts; `disk`: the disks
    of the replica's nodes, and those links; `network`: the network cards of its devices, and the store."""
    bandwidth: Bandwidth | None = None
    """Bytes per second that are read: of the disks of a node, which all its replicas share, or of the whole store. A
    `disk` needs it; the path alone counts where it is left out."""
    write_bandwidth: Bandwidth | None = None
    """The same of what is written; as `bandwidth` where left out."""
    latency: Seconds = 0.0
    """Time before the bytes of a load or a write move: look-up, and the first answer."""
    shared: bool = False
    """Whether all replicas read and write one memory (Mooncake's store, LMCache's remote back end)."""
    eviction: str = "lru"
    """Which block gives way: `lru` (used least recently), `lfu` (used least often), `fifo` (written first)."""
    write: Literal["through", "back"] = "through"
    """`through`: blocks are written as soon as they are computed; `back`: when the memory before this one, the devices'
    or the tier's above, drops them."""

    survives: bool | None = Field(default=None, exclude_if=lambda outlives: outlives is None)
    """Whether it still holds its blocks after the replica has failed (`serving.fleet.failures`). Where left out, host
    memory does not, as it belongs to the process of the engine, and disks and stores do; write `true` for a cache
    server beside the engine."""

    @property
    def outlives(self) -> bool:
        """Whether its blocks are still there after a failure of the replica."""
        return self.way != "host" if self.survives is None else self.survives

    @property
    def way(self) -> str | None:
        """The path, by the name where it is not written."""
        return self.path or PATHS.get(self.name)

    @model_validator(mode="after")
    def _has_a_path(self) -> Self:
        if self.way is None:
            raise ValueError(f"the tier {self.name!r} has no path: write `path: host`, `disk` or `network`")
        if self.way == "disk" and self.bandwidth is None:
            raise ValueError(f"the disks of the tier {self.name!r} need a `bandwidth`, such as 6 GB/s of a drive")
        if self.write_bandwidth is not None and self.bandwidth is None:
            raise ValueError("`write_bandwidth` stands beside `bandwidth`, that of reading")
        if self.shared and self.survives is False:
            raise ValueError(
                f"the tier {self.name!r} is shared, so that no replica's failure empties it: leave `survives` out"
            )
        if self.shared and self.way == "host":
            raise ValueError(
                f"the tier {self.name!r} is shared, and other replicas do not reach it over `host`: "
                "write `path: network`"
            )
        return self


class TierLoads(Spec):
    """How blocks come back from tiers."""

    when: Literal["always", "faster"] = "always"
    """`always`: whatever a tier holds is loaded; `faster`: only where that takes less time, alone on its path, than
    computing the same tokens."""
    layered: bool = False
    """Whether a prompt begins while its last layers are still loading, as late as they are hidden behind the layers
    before them; if not, it waits for all of its blocks."""
    least: Count = 1
    """Tokens in tiers from which they are loaded at all (256 in SGLang's HiCache)."""


class ChunkReuse(Spec):
    """Keys and values of retrieved chunks (`requests.chunks`) that are used again at any place of a prompt, a share of
    their tokens computed anew (Cache-Craft, CacheBlend)."""

    capacity: Annotated[Bytes, Field(gt=0)]
    """Bytes of device memory of a replica that are set aside for them."""
    recompute: Fraction
    """Share of a chunk's tokens that are computed anew, as they attend to other chunks before them."""
