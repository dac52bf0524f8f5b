"""Where each candidate of a search for layouts went."""

from dataclasses import dataclass, field

from simulator.study.layouts.layout import Layout


@dataclass
class Nearest:
    """Of the candidates that one limit rules out, the one that misses it by least."""

    layout: Layout | None = None
    machine: str = ""
    need: float = float("inf")
    limit: float = 0.0

    def tell(self, layout: Layout, machine: str, need: float, limit: float) -> None:
        """One more that is ruled out: it needs so much of a limit, both in the same unit."""
        if self.layout is None or need / limit < self.need / self.limit:
            self.layout, self.machine, self.need, self.limit = layout, machine, need, limit


@dataclass
class Counts:
    """Candidates, each in one of the numbers."""

    refused: int = 0
    """The model, the software or the cluster has no such layout."""
    memory: int = 0
    """More than a device has, by the closed form of the ledger or by the ledger itself."""
    days: int = 0
    """Too long, by the bounds or as priced."""
    budget: int = 0
    """Too dear, by the bounds or as priced."""
    compute: int = 0
    """The compute roof alone is above the best found."""
    communication: int = 0
    """The roof with communication is."""
    bubble: int = 0
    """Only with the bubble."""
    unshared: int = 0
    """Only the step in which nothing shares a device or a link is."""
    beaten: int = 0
    """Priced and behind the best ones."""
    leaders: int = 0
    """Priced and among the best."""
    failed: int = 0
    """The simulator itself is wrong."""
    priced: int = 0
    """Taken up to be priced, as no bound ruled them out; they are in the numbers above, too."""
    ledger: int = 0
    """Of these, found too large by the ledger of memory itself, so that no step was run; counted under `memory`."""
    looked_up: int = 0
    """Of these, taken from a cache."""
    simulated: int = 0
    """Leaders that were confirmed by events."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Why layouts are refused."""
    nearest: dict[str, Nearest] = field(default_factory=dict)
    """By `memory`, `days` and `budget`: what comes nearest of what is ruled out."""

    @property
    def all(self) -> int:
        """All candidates."""
        ruled = self.refused + self.memory + self.days + self.budget + self.failed
        return ruled + self.compute + self.communication + self.bubble + self.unshared + self.beaten + self.leaders

    def refuse(self, reason: str) -> None:
        """One that there is not."""
        self.refused += 1
        self.reasons[reason] = self.reasons.get(reason, 0) + 1

    def miss(self, limit: str, layout: Layout, machine: str, need: float, most: float) -> None:
        """One that needs more than a limit allows."""
        setattr(self, limit, getattr(self, limit) + 1)
        self.nearest.setdefault(limit, Nearest()).tell(layout, machine, need, most)
