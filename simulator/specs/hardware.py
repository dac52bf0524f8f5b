"""Accelerators, nodes, clusters and kernel efficiencies as typed data.

A cluster is nodes on a network; a node is accelerators on a scale-up fabric with network cards. Whatever a
number is, it is a `Figure` with its source. A new device or cluster is one YAML file and no Python.
"""

from math import prod
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from simulator import units
from simulator.errors import InputError, Problem, nearest
from simulator.specs.base import (
    Bandwidth,
    Bytes,
    Count,
    Figure,
    FlopRate,
    Hertz,
    MoneyRate,
    Percentage,
    PositiveFraction,
    Seconds,
    Spec,
    Watts,
)
from simulator.specs.kinds import Extensible, Keys, OneOf, built_in
from simulator.specs.long_runs.storage import Storage
from simulator.specs.network import KINDS, REDUCING, Slices, SwitchReduction
from simulator.specs.text.numbering import Numbering
from simulator.specs.tiers.host import HostCpu, Nvme

DType = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp16_acc16", "fp8", "fp8_block", "int8", "int4", "fp4"]
"""Number formats of a device; sums of `fp16` products are kept in 32 bits, those of `fp16_acc16` in 16."""


DeviceKind = Literal["gpu", "npu", "tpu", "fpga", "cpu"]
"""What a device is, which decides what software has kernels for it."""

MOST_JOINED = {"mesh": 512, "ring": 256, "links": 128}
"""Devices of a node by the kind of its scale-up fabric: a mesh has links by the square of them, ways through a ring or
a list of links are as long as they are many."""


class Memory(Spec):
    """Device memory."""

    capacity: Figure[Bytes]
    """What an allocator can hand out before its own overheads."""
    bandwidth: Figure[Bandwidth]
    """Peak of the memory interface, one direction at a time."""


class Power(Spec):
    """Electric power of one accelerator."""

    peak: Figure[Watts]
    """Board power at full load."""
    limit: Figure[Watts] | None = Field(default=None, exclude_if=lambda watts: watts is None)
    """Board power that the device is held to (`nvidia-smi --power-limit`), below its peak: arithmetic slows down with
    the clock that is left, the cube root of the power above idle; memory and links do not. No limit where left out."""
    idle: Figure[Watts] | None = None
    """Board power of a device that waits with a context loaded; 15 % of the peak where left out."""
    memory: Figure[PositiveFraction] | None = None
    """Share of the span from idle to peak that the memory takes at its full rate; 0.25 (HBM) where left out."""

    @model_validator(mode="after")
    def _limit_within(self) -> Self:
        """A limit lies above the power of a device that waits, and not above the peak."""
        if self.limit is not None and not idle_w(self) < self.limit.value <= self.peak.value:
            idle, peak = units.format(idle_w(self), "power"), units.format(self.peak.value, "power")
            raise ValueError(f"power.limit lies between what waits, {idle}, and the peak, {peak}")
        return self


LEAST_IDLE = 0.15
"""Idle power over that of the peak, of devices whose profile does not say; an estimate."""


def idle_w(power: Power) -> float:
    """Watts of a device that waits; a share of its peak where its profile does not say."""
    return LEAST_IDLE * power.peak.value if power.idle is None else power.idle.value


class Accelerator(Spec):
    """One device as a scheduler sees it: a GPU, an NPU die or package, a TPU chip, an FPGA, a CPU."""

    folder: ClassVar[str] = "hardware_profiles/accelerators"

    name: str
    """Product name."""
    vendor: str
    """Maker."""
    kind: DeviceKind
    """What it is."""
    year: int
    """Year of first availability."""
    peak: dict[DType, Figure[FlopRate]]
    """Dense peak rate by number format; sparsity is never counted."""
    memory: Memory
    """Its own memory."""
    cores: Figure[Count] | None = None
    """Multiprocessors (SM, CU, AI core) that tiles are spread over."""
    clock: Figure[Hertz] | None = None
    """Clock at which the peaks hold."""
    on_chip: Figure[Bytes] | None = None
    """Last-level cache or scratchpad."""
    host_link: Figure[Bandwidth] | None = None
    """To the host, per direction."""
    power: Power | None = None
    """Electric power."""
    price: Figure[MoneyRate] | None = None
    """On-demand list price per device-hour; a parameter more than a fact."""
    kernels: str = "generic"
    """Kernel profile (`hardware_profiles/kernels/NAME.yaml`) that gives the efficiencies."""
    sustained: Figure[PositiveFraction] | None = None
    """Rate of long training runs over that of the kernel benchmarks (power and heat). None: kernels run as in
    benchmarks, and efficiencies of training stacks hold what their devices lose."""
    variability: Figure[Percentage] | None = Field(default=None, exclude_if=lambda spread: spread is None)
    """How unlike devices of this model are: standard deviation over mean of what the same work that arithmetic bounds
    takes them (manufacturing and power management). Training waits for the slowest; devices are equal where left
    out."""
    notes: str = ""
    """What a reader should know."""


class Link(Spec):
    """A direct connection of two devices in a node."""

    between: tuple[int, int]
    """Device indices."""
    count: Count = 1
    """Parallel links; the bandwidth multiplies."""


SCALE_UP_KEYS = built_in("scale-up fabric", ("switch", "mesh", "ring", "links", "host", "pcie", "none"))
"""Kinds of fabrics inside a node."""
NETWORK_KEYS = built_in("network", ("none", "tree", "dragonfly", "torus"))
"""Kinds of networks between nodes."""
for _name, _keys in KINDS.items():
    NETWORK_KEYS.add(_name)(_keys)


class ScaleUp(Extensible):
    """The fabric inside a node (NVLink, Infinity Fabric, HCCS, UB, PCIe)."""

    kinds: ClassVar[Keys] = SCALE_UP_KEYS

    kind: Annotated[str, OneOf(SCALE_UP_KEYS)]
    """`switch`: any pair at full speed; `mesh`: the device's bandwidth split over direct links to all others; `ring`:
    two neighbours; `links`: an explicit list, packets routed through neighbours; `host`: all traffic through one shared
    host bus; `pcie`: switches with some devices each, joined by the host; `none`: a single device or no path; or one
    that a plug-in adds."""
    bandwidth: Figure[Bandwidth] | None = None
    """Per device and direction (`switch`, `mesh`, `ring`, `pcie`), per link and direction (`links`), of the shared bus
    (`host`)."""
    latency: Figure[Seconds] | None = None
    """One traversal from device to device, without software."""
    links: tuple[Link, ...] = ()
    """For `links`: which device is connected with which."""
    switch_devices: Count | None = Field(default=None, exclude_if=lambda devices: devices is None)
    """For `pcie`: devices below a switch, each of which has one link of a device's bandwidth to the host."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind != "none" and self.more is None and self.bandwidth is None:
            raise ValueError(f"a scale-up fabric of kind {self.kind!r} needs `bandwidth`")
        if (self.kind == "links") != bool(self.links):
            raise ValueError("`links` lists connections exactly when `kind: links`")
        if (self.kind == "pcie") != (self.switch_devices is not None):
            raise ValueError("`switch_devices` says how many devices a switch has exactly when `kind: pcie`")
        return self


class Nics(Spec):
    """Network cards of one node."""

    count: Count
    """Cards per node. Fewer than devices are shared: device i uses card i * count // devices. Of more, each
    device has its count / devices for itself, as one port."""
    bandwidth: Figure[Bandwidth]
    """Per card and direction."""
    latency: Figure[Seconds] | None = None
    """From device memory to the wire and back up, software excluded."""
    rdma: Literal["infiniband", "roce", "none"] | None = Field(default=None, exclude_if=lambda rdma: rdma is None)
    """RDMA between cards: cards of one kind talk it with each other, `none` with no card; all do where left out."""
    sockets: Figure[Bandwidth] | None = Field(default=None, exclude_if=lambda sockets: sockets is None)
    """Per card and direction to cards that they cannot talk RDMA with, over Ethernet; needed beside `rdma`."""

    @model_validator(mode="after")
    def _falls_back(self) -> Self:
        if (self.rdma is None) != (self.sockets is None):
            raise ValueError("`rdma` and `sockets` need each other: what cards reach where they cannot talk RDMA")
        return self


class Node(Spec):
    """A server (or a scale-up domain that behaves as one)."""

    folder: ClassVar[str] = "hardware_profiles/nodes"

    name: str
    """Product or system name."""
    accelerator: Accelerator
    """The device it holds."""
    devices: Count
    """How many."""
    scale_up: ScaleUp
    """How they are connected."""
    nics: Nics | None = None
    """How it leaves the node; None for a machine without a network."""
    host_memory: Figure[Bytes] | None = None
    """Main memory of the host."""
    host_links: Figure[Bandwidth] | None = Field(default=None, exclude_if=lambda links: links is None)
    """Of all devices to the host together, per direction, where switches share less than each device's link."""
    cpu: HostCpu | None = Field(default=None, exclude_if=lambda cpu: cpu is None)
    """Processors of the host, which may update what is offloaded."""
    nvme: Nvme | None = Field(default=None, exclude_if=lambda nvme: nvme is None)
    """NVMe drives of the node."""
    power: Figure[Watts] | None = None
    """Whole node at full load, devices included."""
    notes: str = ""
    """What a reader should know."""

    @field_validator("scale_up")
    @classmethod
    def _bounded(cls, scale_up: ScaleUp, known: ValidationInfo) -> ScaleUp:
        devices, kind = known.data.get("devices", 0), scale_up.kind
        if devices > MOST_JOINED.get(kind, devices):
            raise ValueError(
                f"{devices:,} devices joined as `{kind}` are not modelled: up to {MOST_JOINED[kind]} are; "
                "`switch` joins any number"
            )
        if kind == "links" and (apart := apart_of(devices, scale_up.links)):
            raise ValueError(
                f"links join devices 0 to {devices - 1} with each other and no others: see device {apart[0]}"
            )
        return scale_up


def apart_of(devices: int, links: tuple[Link, ...]) -> list[int]:
    """Devices that links do not join with device 0, and devices of links that a node does not have."""
    pairs, there = [set(link.between) for link in links], set(range(devices))
    joined, known = {0}, 0
    while len(joined) > known:
        known = len(joined)
        joined.update(*(pair for pair in pairs if pair & joined))
    return sorted((joined.union(*pairs) - there) | (there - joined))


class Level(Spec):
    """One level of switches in a tree network, leaf first."""

    name: str
    """leaf, spine, pod, core ..."""
    nodes: Count
    """Nodes below one switch group of this level (one rail of it, where rail-optimised)."""
    oversubscription: float = Field(default=1.0, ge=1)
    """Bandwidth coming from below over bandwidth going up from this level."""
    latency: Figure[Seconds] | None = None
    """Added by one passage through a switch of this level."""


_TORI = ("torus", "multislice")
"""Kinds whose network goes through the devices."""


class Network(Extensible):
    """The scale-out network between nodes."""

    kinds: ClassVar[Keys] = NETWORK_KEYS

    kind: Annotated[str, OneOf(NETWORK_KEYS)]
    """`tree`: leaf-spine and fat trees, with ideal spreading over equal paths; `dragonfly`: groups joined all to all;
    `torus`: devices joined to neighbours along each dimension (the network goes through the devices and no card is
    used); `multislice`: several tori joined by the cards of their hosts. Every switch and cable of its own, and a
    `routing`, have `fat-tree`, `leaf-spine`, `rail-only`, `dragonfly-links`, `dragonfly-plus`, `full-mesh`, `sites`
    (over a wide area) and `graph` (any list of cables); `pairs` has the measured bandwidth of each pair of nodes; or
    one that a plug-in adds."""
    levels: tuple[Level, ...] = ()
    """For `tree` and `fat-tree`: from the leaves up; above the last one everything is joined without blocking."""
    rail_optimised: bool = False
    """For `tree`, `fat-tree` and `leaf-spine`: card r of each node is on leaf r, so that equal ranks meet one switch
    earlier."""
    group_nodes: Count | None = None
    """For `dragonfly`: nodes in a group."""
    global_bandwidth: Figure[Bandwidth] | None = None
    """For `dragonfly`: of all global links of a group together, per direction."""
    shape: tuple[Count, ...] = ()
    """For `torus` and each slice of `multislice`: devices along each dimension; for `full-mesh`: switches."""
    wrap: bool = True
    """For `torus`: whether each dimension closes to a ring."""
    twist: bool = Field(default=False, exclude_if=lambda twist: not twist)
    """For `torus` of sizes k and 2 k: whether the seam of each short dimension leads k further along each long one
    (twisted torus of TPU v4; Camarero, Martinez and Beivide 2010)."""
    slices: Slices | None = Field(default=None, exclude_if=lambda slices: slices is None)
    """For `torus` that wraps: which dimensions of a `shape` close; all where left out."""
    largest: Count | None = None
    """For `torus` and `multislice`: the most devices that the links of a slice join. More are several slices over a
    data-centre network (`multislice`)."""
    bandwidth: Figure[Bandwidth] | None = None
    """For `torus`: per link and direction; for `dragonfly-links`, `dragonfly-plus` and `full-mesh`: of each cable
    between switches."""
    latency: Figure[Seconds] | None = None
    """Per hop for `torus`; per switch passage for others but trees, whose levels have theirs."""
    switch_reduction: SwitchReduction | None = Field(default=None, exclude_if=lambda reduction: reduction is None)
    """For trees of switches: that these add up what nodes send and copy the sum to all (InfiniBand SHARP), in jobs that
    ask for it."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.switch_reduction is not None and self.kind not in REDUCING:
            kinds = ", ".join(f"`{kind}`" for kind in REDUCING)
            raise ValueError(f"`switch_reduction` is for trees of switches ({kinds}), not for kind {self.kind!r}")
        needed = {
            "tree": ("levels",),
            "dragonfly": ("group_nodes", "global_bandwidth"),
            "torus": ("shape", "bandwidth"),
            "fat-tree": ("levels",),
            "dragonfly-links": ("bandwidth",),
            "dragonfly-plus": ("bandwidth",),
            "full-mesh": ("shape", "bandwidth"),
            "multislice": ("shape", "bandwidth"),
        }
        missing = [name for name in needed.get(self.kind, ()) if not getattr(self, name)]
        if missing:
            raise ValueError(f"a network of kind {self.kind!r} needs {' and '.join(f'`{m}`' for m in missing)}")
        if self.slices is not None and (self.kind not in _TORI or len(self.slices.block) != len(self.shape)):
            raise ValueError("`slices` is for a torus, with a `block` of as many dimensions as its `shape`")
        if self.twist and not (
            all(self.closed) and 2 * min(self.shape) in set(self.shape) <= {min(self.shape), 2 * min(self.shape)}
        ):
            raise ValueError("a twisted torus wraps and has dimensions of k and of 2 k devices, such as 4 x 4 x 8")
        return self

    @property
    def closed(self) -> tuple[bool, ...]:
        """Whether each dimension of a torus closes to a ring."""
        return self.slices.closed(self.shape) if self.wrap and self.slices else (self.wrap,) * len(self.shape)

    def beyond(self, devices: int) -> str:
        """Why a torus cannot join so many devices, or each of several slices its own; empty where it can."""
        devices = prod(self.shape) if self.kind == "multislice" else devices
        if self.kind not in _TORI or self.largest is None or devices <= self.largest:
            return ""
        return (
            f"the links of one slice join at most {self.largest:,} devices, not {devices:,}: write a network of "
            "`kind: multislice` with the `shape` of one slice"
        )


MAIN = "main"
"""Name of the nodes of a cluster that gives them none."""


class Partition(Spec):
    """Equal nodes of a cluster that has several kinds."""

    name: str
    """What pools and jobs call them."""
    node: Node
    """What they are."""
    nodes: Count
    """How many."""


class Cluster(Spec):
    """Nodes on one network: equal ones, or several kinds, numbered kind after kind."""

    folder: ClassVar[str] = "hardware_profiles/clusters"

    name: str
    """System name."""
    node: Node
    """What it is made of."""
    nodes: Count
    """How many of them the job gets."""
    partition: str = Field(default=MAIN, exclude_if=lambda name: name == MAIN)
    """What pools and jobs call these nodes where there are `more_nodes`."""
    more_nodes: tuple[Partition, ...] = Field(default=(), exclude_if=lambda more: not more)
    """Nodes of other kinds on the same network, as `{name: old, node: nodes/dgx-a100, nodes: 2}`. They are numbered
    after those above, in this order. Pools and jobs name theirs by `partition`; the collective profile is one for
    all."""
    network: Network = Network.model_construct(kind="none")
    """How they are connected."""
    collectives: str = "generic"
    """Collective profile (`hardware_profiles/collectives/NAME.yaml`): protocol latencies and bandwidth efficiencies."""
    storage: Storage | None = Field(default=None, exclude_if=lambda storage: storage is None)
    """What checkpoints of `training.run` are written to."""
    notes: str = ""
    """What a reader should know."""

    @property
    def devices(self) -> int:
        """Accelerators of all nodes."""
        return sum(part.nodes * part.node.devices for part in self.partitions)

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """All nodes by kind."""
        return Partition.model_construct(name=self.partition, node=self.node, nodes=self.nodes), *self.more_nodes

    @property
    def numbering(self) -> Numbering:
        """The numbers of nodes and devices."""
        kinds = self.partitions
        return Numbering(tuple(part.nodes for part in kinds), tuple(part.node.devices for part in kinds))

    def kind(self, partition: str | None, path: str) -> int:
        """The number of a kind of nodes, 0 where none is named; InputError, at `path`, for one that is not there."""
        names = [part.name for part in self.partitions]
        if partition is None or partition in names:
            return 0 if partition is None else names.index(partition)
        message = f"the cluster has no nodes called `{partition}`, but {' and '.join(f'`{name}`' for name in names)}"
        hint = nearest(partition, names) or "`cluster.more_nodes` lists nodes of other kinds"
        raise InputError(Problem(message, path=path, hint=hint))

    def only(self, kind: int) -> "Cluster":
        """The nodes of one kind as a cluster of their own."""
        if not self.more_nodes:
            return self
        part = self.partitions[kind]
        return self.model_copy(
            update={"node": part.node, "nodes": part.nodes, "partition": part.name, "more_nodes": ()}
        )

    @model_validator(mode="after")
    def _joined(self) -> Self:
        names = [part.name for part in self.partitions]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(
                f"two kinds of nodes are called `{twice[0]}`: pools and jobs tell them apart by their names"
            )
        if self.numbering.all_nodes > 1 and self.network.kind == "none":
            raise ValueError("several nodes need a `network`")
        if words := self.network.beyond(self.devices):
            raise ValueError(words)
        cards = [part.node.nics for part in self.partitions if part.node.nics is not None]
        if len({card.rdma is None for card in cards}) > 1:
            raise ValueError("say `nics.rdma` of all kinds of nodes, or of none")
        if cards and cards[0].rdma is not None and self.network.kind not in ("tree", "dragonfly"):
            raise ValueError(f"`nics.rdma` has no effect on a network of kind {self.network.kind!r}: write `tree`")
        return self
