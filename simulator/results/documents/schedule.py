"""A pipeline schedule in time, as it is written and drawn; times are in the unit in which the costs were given."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from simulator.results.documents.form import LEFT_OUT


@dataclass(frozen=True, slots=True)
class PassCosts:
    """What a microbatch costs on a device, all of whose chunks it goes through."""

    forward: float
    input_gradient: float
    weight_gradient: float
    send: float
    """One send over one boundary between devices, which takes no time of theirs."""
    pair: float | None = field(default=None, metadata=LEFT_OUT)
    """A forward and a backward pass side by side; None: as long as one after the other."""
    scores: float | None = field(default=None, metadata=LEFT_OUT)
    """Scores of a device's part of the vocabulary; None where the vocabulary is at the ends of the model."""
    scores_gradient: float | None = field(default=None, metadata=LEFT_OUT)
    """Gradients of them."""
    attention: float | None = field(default=None, metadata=LEFT_OUT)
    """Share of F and I that goes with the pairs of tokens; None where microbatches are not cut."""
    tokens: tuple[float, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Share of the sequence of each slice; None where microbatches are not cut."""
    layers: tuple[float, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Of each stage, which times and activations go with: the costs are those of the mean; None: equally many."""
    speeds: tuple[float, ...] | None = field(default=None, metadata=LEFT_OUT)
    """Of each device, beside that of which the costs are; None: equally fast."""
    kept_for_weights: float | None = field(default=None, metadata=LEFT_OUT)
    """Share of what a microbatch keeps from F on that it keeps from I to W; None: all of it."""


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """One device of the pipeline."""

    busy: float
    """Time in which it computes."""
    idle: float
    """The rest of the makespan."""
    own_idle: float
    """What of it lies between its first and its last pass."""
    peak: float
    """Most microbatches whose activations it keeps at once, a chunk of it a share."""


@dataclass(frozen=True, slots=True)
class ScheduleFigures:
    """What a schedule as a whole comes to."""

    name: str
    makespan: float
    """From the first start to the last end."""
    bubble: float
    """Share of the makespan in which devices are idle, on average."""
    own_bubble: float
    """The most that any device is idle between its first and its last pass, as a share of that time."""
    peak: float
    """The most that any device keeps, in microbatches."""


@dataclass(frozen=True, slots=True)
class PassColumns:
    """The passes, device after device in their order; entry i of each column is pass i."""

    device: tuple[int, ...]
    kind: tuple[str, ...]
    """`F`, `I`, `W`, or `B` of a whole backward pass; `S` and `T` of a part of the vocabulary."""
    stage: tuple[int, ...]
    """Of the model, of whichever copy."""
    chunk: tuple[int, ...]
    """Which of the stages of its device, those of the first copy first."""
    microbatch: tuple[int, ...]
    """Its number, or that of the slice where microbatches are cut: slice j of microbatch n of k slices is n k + j."""
    start: tuple[float, ...]
    end: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.device)

    def groups(self) -> Iterator[range]:
        """Passes that run side by side, in order: those of a device that take the same time; most are alone."""
        first = 0
        for at in range(1, len(self) + 1):
            if at == len(self) or self._place(at) != self._place(first) or self.start[at] == self.end[at]:
                yield range(first, at)
                first = at

    def _place(self, at: int) -> tuple[int, float, float]:
        return self.device[at], self.start[at], self.end[at]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDocument:
    """A schedule of given sizes and costs."""

    schema: int = 1
    kind: str = "schedule"
    name: str
    """Registered name, or the file."""
    devices: int
    stages: int
    """That a microbatch goes through."""
    copies: int
    """How often the model lies on the pipeline."""
    microbatches: int
    costs: PassCosts
    makespan: float
    least_makespan: float
    """No order of these passes on these devices takes less."""
    bubble: float
    """Share of the makespan in which devices are idle, on average."""
    own_bubble: float
    """The most that any device is idle between its first and its last pass, as a share of that time."""
    by_device: tuple[DeviceShare, ...]
    against: ScheduleFigures
    """1F1B of the same costs, without chunks and without a limit; all of the vocabulary is on its last stage."""
    passes: PassColumns
    memory_limit: float | None = field(default=None, metadata=LEFT_OUT)
    """In microbatches; None without one."""
    slices: int | None = field(default=None, metadata=LEFT_OUT)
    """Of each microbatch along its sequence; None where it is not cut."""
    paths: tuple[tuple[int, ...], ...] | None = field(default=None, metadata=LEFT_OUT)
    """Stages that microbatches go through, one path after the other; None where all go through all."""
    weight_versions: int | None = field(default=None, metadata=LEFT_OUT)
    """Versions of the weights that devices keep where steps overlap without a flush; None where they do not.

    A step is then one of a steady state, with the passes that begin in it.
    """
    updates_late: int | None = field(default=None, metadata=LEFT_OUT)
    """Updates that gradients are behind the weights that they are applied to, where steps overlap."""

    @property
    def peak(self) -> float:
        """The most that any device keeps, in microbatches."""
        return max(device.peak for device in self.by_device)
