"""An order of nodes beside that of their numbers, as `clustersim plan --order` finds it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BusiestPair:
    """The pair of nodes that is busy longest with a phase of a step's collectives."""

    nodes: tuple[int, int]
    """From which to which."""
    bandwidth: float
    """Bytes per second between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderDocument:
    """What a search for an order came to."""

    schema: int = 1
    kind: str = "order"
    name: str
    """Of the scenario."""
    system: str
    """Model, devices and layout in a line."""
    nodes: tuple[int, ...]
    """The order: the first ranks lie on the first of them."""
    called: tuple[str, ...]
    """Names of these nodes, where the network's file has names; else empty."""
    default_step_s: float
    """With ranks on the nodes in order."""
    step_s: float
    default_busy_s: float
    """Seconds that the busiest pairs of all phases are busy, one phase after the other."""
    busy_s: float
    default_pair: BusiestPair | None
    """None where nothing is sent between nodes."""
    pair: BusiestPair | None
    orders: int
    """That were looked at."""
    simulations: int
    seed: int
    version: str
    """Of the simulator."""

    @property
    def moved(self) -> bool:
        """Whether another order than that of the numbers is better."""
        return self.nodes != tuple(range(len(self.nodes)))
