"""Several jobs on one cluster: what each is, when it starts, which devices it gets, and what changes meanwhile."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from simulator.specs.base import Count, Percentage, Seconds, Spec
from simulator.specs.hardware import Cluster
from simulator.specs.kinds import Extensible, Keys, OneOf, built_in
from simulator.specs.model import Model
from simulator.specs.runs import Published, Trains
from simulator.specs.serves import Serves
from simulator.specs.serving import Serving
from simulator.specs.training import Training

Index = Annotated[int, Field(ge=0)]
SHORTEST_FLAP = 1e-4
"""Seconds for which flapping links are up or down at least: a link that trains anew takes longer, and each change of
each link is an event."""
PERTURBATION_KEYS = built_in("perturbation", ("slow-links",))
"""Kinds of perturbations."""


class Flapping(Spec):
    """Keys of `flapping-links`: links that are down, then up, again and again."""

    up: Seconds
    """For how long they work at a time; on average where `times` are drawn."""
    down: Seconds
    """For how long they then do not; a perturbation begins with it. `factor` is what is left meanwhile, nothing where
    left out."""
    times: Literal["regular", "random"] = "regular"
    """`regular`: every period is `down` + `up`, and all links go together. `random`: exponential times with these
    means, drawn by the scenario's seed for each of the `links` by itself."""

    @field_validator("up", "down")
    @classmethod
    def _not_at_once(cls, seconds: float) -> float:
        if seconds < SHORTEST_FLAP:
            raise ValueError(f"links that flap are up and down for {SHORTEST_FLAP * 1e6:.0f} us or longer at a time")
        return seconds


PERTURBATION_KEYS.add("flapping-links")(Flapping)


class Place(Spec):
    """Devices that a job gets, by name."""

    nodes: tuple[Index, ...] = ()
    """Whole nodes, from 0, in the order of the job's ranks."""
    devices: tuple[Index, ...] = ()
    """Or single devices: node x devices of a node + place in the node, from 0, in the order of the job's ranks."""

    @model_validator(mode="after")
    def _one_choice(self) -> "Place":
        if bool(self.nodes) == bool(self.devices):
            raise ValueError("write either `nodes` or `devices`" + (", not both" if self.nodes else ""))
        for name, listed in (("node", self.nodes), ("device", self.devices)):
            if twice := [one for one in listed if listed.count(one) > 1]:
                raise ValueError(f"{name} {twice[0]} is listed twice")
        return self


def _placed(placement: Any) -> str:
    """Whether a placement is a word or names devices."""
    return "word" if isinstance(placement, str) else "names"


Placement = Annotated[
    Annotated[Literal["packed", "spread", "random"], Tag("word")] | Annotated[Place, Tag("names")],
    Discriminator(_placed),
]


class OneJob(Spec):
    """What each of several jobs says."""

    name: str
    """What reports call it; short."""
    model: Model
    """The network that it trains or serves."""
    start: Seconds = 0.0
    """When it starts."""
    placement: Placement = "packed"
    """Its devices: `packed` takes the first free ones, `spread` nodes evenly over the free ones, `random` free nodes
    drawn with the scenario's seed, `{nodes: [0, 1]}` or `{devices: [0, 1, 2, 3]}` these. Jobs that name theirs are
    placed first, the others in the order in which they are listed."""
    partition: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Kind of nodes that it lies on, by its name in `cluster.more_nodes`; the first kind with room for it where left
    out. A job that trains lies on nodes of one kind; pools of one that serves may name theirs."""
    nodes: Count | None = None
    """Whole nodes that it gets, where `placement` does not name them; as many devices as its layout needs where left
    out. A training job that leaves `dp` open as well takes all nodes that the others leave."""
    published: tuple[Published, ...] = ()
    """Figures of this job to compare with."""

    @model_validator(mode="after")
    def _one_size(self) -> "OneJob":
        named = self.placement
        if isinstance(named, Place) and self.nodes is not None and len(named.nodes) != self.nodes:
            what = f"{len(named.nodes)} nodes" if named.nodes else "devices"
            raise ValueError(f"`placement` names {what} and `nodes` says {self.nodes}: leave `nodes` out")
        return self


class TrainingJob(Trains, OneJob):
    """A job that trains. Its figures are of its first `training.steps` steps."""

    repeat: bool = True
    """Whether it goes on with further steps until all jobs have done theirs, so that these run beside it all along."""

    @field_validator("training")
    @classmethod
    def _one_step(cls, training: Training) -> Training:
        """Steps of jobs are simulated one by one."""
        if training.run is not None:
            raise ValueError("`run` is for a scenario of one job, whose steps are all alike: leave it out of `jobs`")
        return training


class ServingJob(Serves, OneJob):
    """A job that serves."""

    @property
    def system(self) -> Serving:
        """What serves, on the nodes that the job names."""
        if self.partition is None or self.serving.partition is not None:
            return self.serving
        return self.serving.model_copy(update={"partition": self.partition})

    @property
    def names_nodes(self) -> bool:
        """Whether it or a pool says on which kind of nodes it lies."""
        return self.system.partition is not None or any(pool.partition for pool in self.serving.pools)


def _does(job: Any) -> str:
    """Which of them a job is, by its sections."""
    keys = set(job) if isinstance(job, dict) else set(getattr(job, "model_fields_set", ()))
    return "serving job" if "training" not in keys and {"serving", "requests"} & keys else "training job"


AnyJob = Annotated[
    Annotated[TrainingJob, Tag("training job")] | Annotated[ServingJob, Tag("serving job")], Discriminator(_does)
]


class Perturbation(Extensible):
    """Something that begins, and may end, while jobs run."""

    kinds: ClassVar[Keys] = PERTURBATION_KEYS

    kind: Annotated[str, OneOf(PERTURBATION_KEYS)]
    """`slow-links`: links that have only a share of their bandwidth meanwhile; `flapping-links`: links that are down
    for part of each period; or one that a plug-in adds."""
    start: Seconds = 0.0
    """When it begins."""
    lasts: Seconds | None = None
    """For how long; until all jobs have done what counts where left out, and never longer."""
    links: tuple[str, ...] = ()
    """On which links, by name: `NIC 17` (both directions), `NIC up 17`, `leaf down 0`, `node 3: 2 > switch`."""
    factor: Percentage | None = None
    """Share of the bandwidth that is left, `0.1` or `10 %`; with 0 links are down. For `slow-links`, and for
    `flapping-links` while they are down (0 where left out)."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "slow-links" and (not self.links or self.factor is None):
            raise ValueError("a perturbation of kind 'slow-links' needs `links` and `factor`")
        if self.kind == "slow-links" and self.factor == 0 and self.lasts is None:
            raise ValueError("links that are down for ever end no run: write how long it `lasts`")
        if self.kind == "flapping-links" and not self.links:
            raise ValueError("a perturbation of kind 'flapping-links' needs `links`")
        return self


class JobsScenario(Spec):
    """Several simulated runs that share one cluster."""

    folder: ClassVar[str] = "scenarios"
    elsewhere: ClassVar[dict[str, str]] = dict.fromkeys(
        ("model", "stack", "training", "serving", "requests", "slo", "fold", "leap", "records", "published"),
        "each of `jobs` has its own",
    )

    version: Literal[1]
    """Version of this format."""
    name: str
    """What is simulated, in a line."""
    description: str = ""
    """Longer text, for readers."""
    cluster: Cluster
    """The machine that they share."""
    jobs: tuple[AnyJob, ...] = Field(min_length=1)
    """The jobs."""
    perturbations: tuple[Perturbation, ...] = ()
    """What changes on the machine while they run."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every random choice."""

    @field_validator("jobs")
    @classmethod
    def _named_apart(cls, jobs: tuple[AnyJob, ...]) -> tuple[AnyJob, ...]:
        names = [job.name for job in jobs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two jobs are called `{twice[0]}`: names tell them apart")
        return jobs
