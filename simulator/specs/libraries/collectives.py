"""What a collective library makes of the hardware: step latencies and bandwidth efficiencies, as typed data."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bytes, Figure, PositiveFraction, Seconds, SomeBytes, Spec
from simulator.specs.libraries.tuner import Release, Tuner

Share = Annotated[float, Field(ge=0, le=1e6)]

Operation = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send", "shift", "dispatch", "combine"
]


class Fill(Spec):
    """What a pipeline of chunks loses until it is full: S bytes take the time of S + fraction x min(S, bytes)."""

    fraction: Figure[Share]
    """Extra time of small messages as a share of their time at full efficiency."""
    bytes: Figure[Bytes]
    """Size from which the extra time stops to grow."""
    each: bool = Field(default=False, exclude_if=lambda each: not each)
    """Whether `bytes` is what each member of a node has in the pipeline, as where a switch adds up a part for each."""


class Piece(Spec):
    """What a hop waits for its piece of the message before it passes it on: wait x sqrt(min(1, S / bytes))."""

    wait: Figure[Seconds]
    """Once pieces are as large as they get."""
    bytes: Figure[SomeBytes]
    """Size of the message from which pieces stop to grow."""


class Scope(Spec):
    """One protocol on one kind of fabric."""

    launch: Figure[Seconds]
    """Once per collective that goes no further than this."""
    latency: Figure[Seconds]
    """Of each sequential step: software, synchronisation, and a wire as long as the profile's `wire`."""
    efficiency: Figure[PositiveFraction]
    """Rate of large messages over the rate of the link."""
    fill: Fill | None = None
    """None where messages of all sizes move at full efficiency."""
    piece: Piece | None = Field(default=None, exclude_if=lambda piece: piece is None)
    """None where hops take as long for messages of all sizes."""
    crowded: Figure[PositiveFraction] | None = Field(default=None, exclude_if=lambda share: share is None)
    """Share of the efficiency that is left to a shift where a group is so large that the library gives a peer one
    channel for two (`rate.CROWDED`); None: all of it."""
    stored: float = Field(default=1.0, ge=0, le=1.0, exclude_if=lambda stored: stored == 1.0)
    """Share of a piece that a device holds before it passes it on in a ring; hops hide behind the rest of its bytes. 0
    where lines carry flags, 0.5 where pieces go in two slices; read of the widest fabric that a ring crosses."""


class Scopes(Spec):
    """A protocol inside nodes and between them."""

    scale_up: Scope
    """Inside a node."""
    scale_out: Scope
    """Between nodes."""


class Protocol(Scopes):
    """A way to move data: latency against bandwidth."""

    algorithms: tuple[str, ...] = ()
    """Algorithms that this protocol is for; empty for all that no other protocol names."""
    trees: Scopes | None = Field(default=None, exclude_if=lambda trees: trees is None)
    """For what is no ring, where it differs: pieces go along chains in nodes and up and down between them."""

    def of(self, ring: bool, lone: bool = False) -> Scopes:
        """The figures for a ring or for what is none; where each node has a `lone` member there is no chain, and pieces
        go from card to card as in a ring."""
        return self if ring or lone or self.trees is None else self.trees


class Wire(Spec):
    """Wire latency of the machine that the step latencies were measured on; what a way has beyond it is added."""

    scale_up: Figure[Seconds]
    """From device to device in a node."""
    scale_out: Figure[Seconds]
    """From device to device through one switch."""


class Occupancy(Spec):
    """What a collective takes of the devices that run it, by algorithm; `any` stands for those that are not named."""

    multiprocessors: dict[str, Figure[Share]] = Field(default_factory=dict)
    """Multiprocessors that are held while a collective runs, one for each channel (block of threads); an algorithm that
    is neither named nor among the `tuner`'s rings and trees holds none: engines of their own move its bytes."""
    between_nodes: dict[str, Figure[Share]] = Field(default_factory=dict)
    """The same of groups of several nodes, where it differs."""
    memory: dict[str, Figure[Share]] = Field(default_factory=dict)
    """Bytes that a device's memory reads and writes for each byte that links carry for the device."""


class CustomAllReduce(Spec):
    """Sums of small messages by kernels of a serving engine, which read the memory of their neighbours in a node."""

    launch: Figure[Seconds]
    """Of a pair of devices."""
    member: Figure[Seconds]
    """More for each further device."""
    hop: Figure[Seconds]
    """More where a message is summed in pieces first and the pieces are gathered then."""
    efficiency: Figure[PositiveFraction]
    """Rate over that of a device's scale-up links."""
    largest: Figure[Bytes]
    """Messages of this size and more go to the library."""


class Environment(Spec):
    """What a library may choose from, in NCCL's words; empty: anything."""

    NCCL_ALGO: str = ""
    """Such as `Ring,Tree`, `^NVLS`, `allreduce:tree;allgather:ring`."""
    NCCL_PROTO: str = ""
    """Such as `Simple`, `^LL128`."""
    NCCL_NVLS_ENABLE: Literal[0, 1, 2] = Field(default=2, exclude_if=lambda enabled: enabled == 2)
    """0: nothing that NVLink's switches add up or copy."""
    release: Release | Literal[""] = Field(default="", exclude_if=lambda release: not release)
    """Of the library, where its tables changed from one to another; empty: the newest that they are known of."""

    def over(self, own: "Environment | None") -> "Environment":
        """What this says, and what `own`, that of a machine, says where this says nothing."""
        return self if own is None else own.model_copy(update=self.model_dump(exclude_defaults=True))


class AlgorithmRule(Spec):
    """When a library takes an algorithm, whatever would be quickest."""

    operation: Operation
    """Of what."""
    algorithm: str
    """Of the profile's for this operation; with `/protocol` under that one only."""
    below: Bytes | None = None
    """For messages of fewer bytes; None: of any."""
    each: bool = False
    """Whether the bytes of `below` are those for each member."""
    nodes: Literal["any", "several", "power_of_two", "other"] = "any"
    """Whether the nodes of a group have to be more than one, a power of two in number, or must not be such a power."""
    source: str
    """Where the rule was read."""


class CollectiveProfile(Spec):
    """A collective library on a family of machines."""

    folder: ClassVar[str] = "hardware_profiles/collectives"

    name: str
    """Library and machines."""
    algorithms: dict[Operation, tuple[str, ...]]
    """Algorithms that the library chooses from, for each operation."""
    protocols: dict[str, Protocol]
    """By name; of those that serve an algorithm, the one that `tuner` takes, or else the quickest."""
    wire: Wire
    """What the step latencies include."""
    own_piece: Figure[Share] | None = None
    """Time to copy or add the piece that a member does not send, as a share of the time to move one; None: 0."""
    occupancy: Occupancy = Occupancy.model_construct()
    """What collectives take of the devices that run them, which kernels beside them then lack."""
    tuner: Tuner | None = None
    """How the library chooses; None where nothing is published: it then takes what is quickest beside its siblings."""
    rules: tuple[AlgorithmRule, ...] = Field(default=(), exclude_if=lambda rules: not rules)
    """Published rules of choice: the first that fits and whose algorithm can do it; none fits: as without."""
    engines: dict[str, CustomAllReduce] = Field(default_factory=dict)
    """All-reduces of serving engines' own kernels by the engine (`vllm`, `sglang`, `trtllm`); an engine that is not
    named has none for these machines."""
    environment: Environment | None = None
    """What it may choose from; None: anything."""
    notes: str = ""
    """What a reader should know: how it was fitted, where it is valid."""

    def protocols_of(self, algorithm: str) -> dict[str, Protocol]:
        """Protocols that serve an algorithm: those that name it, else those that name none."""
        named = {name: p for name, p in self.protocols.items() if algorithm in p.algorithms}
        return named or {name: p for name, p in self.protocols.items() if not p.algorithms}

    @model_validator(mode="after")
    def _served(self) -> Self:
        unserved = {a for names in self.algorithms.values() for a in names if not self.protocols_of(a)}
        if unserved:
            raise ValueError(f"no protocol serves the algorithm {', '.join(sorted(unserved))}")
        for rule in self.rules:
            name, _, protocol = rule.algorithm.partition("/")
            if name not in self.algorithms.get(rule.operation, ()):
                raise ValueError(f"a rule takes `{name}`, which is none of the algorithms for {rule.operation}")
            if protocol and protocol not in self.protocols_of(name):
                raise ValueError(f"a rule takes `{rule.algorithm}`, but no protocol {protocol} serves {name}")
        for option in self.tuner.options if self.tuner else ():
            if option.protocol not in self.protocols_of(option.algorithm):
                raise ValueError(f"no protocol {option.protocol} serves the tuner's algorithm {option.algorithm}")
        return self
