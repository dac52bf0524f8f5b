"""A workflow: stages that depend on each other and share or swap devices, iteration after iteration."""

from collections.abc import Mapping
from math import ceil, floor
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from simulator.specs.base import Count, Percentage, Seconds, Spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.runs import Trains
from simulator.specs.serves import Serves

MOST_RUNS = 100_000
"""Runs of stages in a workflow."""
MOST_DRAWN = 1_000_000
"""Items of a stage whose service times are drawn."""


class DevicePool(Spec):
    """Devices that one stage has at a time; the pools of a workflow follow each other on the cluster."""

    bare: ClassVar[str] = "nodes"

    nodes: Count | None = None
    """Whole nodes."""
    devices: Count | None = None
    """Or single devices, next to each other."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.nodes is None) == (self.devices is None):
            raise ValueError("write either `nodes` or `devices`" + (", not both" if self.nodes else ""))
        return self


class Dependency(Spec):
    """A stage that has to be done before."""

    stage: str
    """Its name."""
    lag: Annotated[int, Field(ge=0)] = 0
    """How many iterations earlier: 0 the same one, 1 the one before. What has no such iteration does not wait."""


Waits = Annotated[
    Annotated[str, Tag("name")] | Annotated[Dependency, Tag("dependency")],
    Discriminator(lambda given: "name" if isinstance(given, str) else "dependency"),
]


class OneStage(Spec):
    """What every stage says."""

    name: str
    """What reports call it; short."""
    after: tuple[Waits, ...] = ()
    """Stages that have to be done before: names, or `{stage: sync, lag: 1}` for one of an earlier iteration. A stage
    also waits for itself in the iteration before."""
    on: str | tuple[str, ...] = ()
    """The pool of devices that it has to itself while it runs, or several; none where it needs no device."""

    @property
    def pools(self) -> tuple[str, ...]:
        """The pools that it takes."""
        return (self.on,) if isinstance(self.on, str) else self.on

    @property
    def waits(self) -> tuple[Dependency, ...]:
        """What it waits for, itself of the iteration before not among it."""
        return tuple(Dependency(stage=one) if isinstance(one, str) else one for one in self.after)


class TrainingStage(Trains, OneStage):
    """A stage that trains: `training.steps` steps on its devices."""

    model: Model
    """The network."""


class ServingStage(Serves, OneStage):
    """A stage that generates, or that reads only (answers of one token): all its requests on a serving engine."""

    model: Model
    """The network."""
    enough: Percentage = 1.0
    """Share of its requests with which the stage is over. The others are stopped where they are and go on in the next
    iteration, their tokens read again as a prompt (partial rollouts); they count towards its `requests.count`."""


class HandOver(Spec):
    """Which weights move where."""

    of: str
    """The stage that has them: one that trains."""
    to: str
    """The stage that needs them: one that generates, or trains in another layout."""
    way: Literal["pieces", "one-by-one"] = "pieces"
    """`pieces`: every device gets what it lacks from the nearest device that has it, all at one time; `one-by-one`: the
    first device of `of` gathers everything and broadcasts it to all devices of `to`."""


class HandOverStage(OneStage):
    """A stage that moves the weights of one stage to the devices of another, over the fabric."""

    hands_over: HandOver
    """The stage whose weights move, and the stage that they move to."""


class TimedStage(OneStage):
    """A stage of known service time: a tool, an environment, an acquisition."""

    takes: Seconds
    """Service time of an item, on average."""
    items: Count = 1
    """Items of an iteration."""
    servers: Count = 1
    """Items that are served at one time."""
    varies: Annotated[float, Field(ge=0, le=10)] = 0.0
    """Coefficient of variation of the service times, which are then log-normal: stragglers."""
    drops: Annotated[Percentage, Field(lt=1)] = 0.0
    """Share of the items that drop out, others in every iteration: each is served, and never done."""
    enough: Percentage = 1.0
    """Share of the items with which the stage is over; the others are given up."""

    @property
    def needed(self) -> int:
        """Items with which it is over."""
        return max(ceil(self.enough * self.items - 1e-9), 1)

    @property
    def dropped(self) -> int:
        """Items that drop out."""
        return round(self.drops * self.items)

    @property
    def drawn(self) -> bool:
        """Whether items differ."""
        return self.varies > 0 or self.dropped > 0

    @model_validator(mode="after")
    def _ends(self) -> Self:
        left = self.items - self.dropped
        if self.needed > left:
            share = floor(100 * left / self.items)
            raise ValueError(
                f"{self.needed:,} of {self.items:,} items are `enough`, and {self.dropped:,} drop out: it never ends;"
                f" write `enough: {share} %` or less"
            )
        if self.drawn and self.items > MOST_DRAWN:
            raise ValueError(f"{self.items:,} items that differ are more than {MOST_DRAWN:,}")
        return self


_SECTIONS = {"training": "trains", "hands_over": "hands over", "takes": "takes time"}


def _does(stage: Any) -> str:
    """Which kind of stage it is, by its sections."""
    keys = set(stage) if isinstance(stage, Mapping) else set(getattr(stage, "model_fields_set", ()))
    return next((kind for section, kind in _SECTIONS.items() if section in keys), "generates")


AnyStage = Annotated[
    Annotated[TrainingStage, Tag("trains")]
    | Annotated[ServingStage, Tag("generates")]
    | Annotated[HandOverStage, Tag("hands over")]
    | Annotated[TimedStage, Tag("takes time")],
    Discriminator(_does),
]


class Workflow(Spec):
    """Stages, the devices that they share, and how often all of it runs."""

    folder: ClassVar[str] = "workloads/workflows"
    elsewhere: ClassVar[dict[str, str]] = dict.fromkeys(
        ("model", "stack", "training", "serving", "requests"), "each of `stages` has its own"
    ) | {"jobs": "jobs that run beside each other are a scenario, for `clustersim run`"}

    version: Literal[1]
    """Version of this format."""
    name: str
    """What is simulated, in a line."""
    description: str = ""
    """Longer text, for readers."""
    cluster: Cluster
    """The machine."""
    pools: dict[str, DevicePool] = Field(default_factory=dict)
    """Named parts of the cluster, one after the other from its first device on."""
    stages: tuple[AnyStage, ...] = Field(min_length=1)
    """What is done in an iteration."""
    iterations: Count = 2
    """How often; with two or more, `iteration_s` is the median from the end of one to the end of the next."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every random choice."""

    @field_validator("stages")
    @classmethod
    def _named_apart(cls, stages: tuple[AnyStage, ...]) -> tuple[AnyStage, ...]:
        names = [stage.name for stage in stages]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two stages are called `{twice[0]}`: names tell them apart")
        return stages

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if len(self.stages) * self.iterations > MOST_RUNS:
            raise ValueError(f"{len(self.stages) * self.iterations:,} runs of stages are more than {MOST_RUNS:,}")
        return self
