"""The root of a scenario file, and what else a run may be.

Building the classes of specs takes longer than reading a file. Here stands what a run that trains needs; the other
kinds, and the unions of all, are loaded when they are asked for. What has a scenario of any kind in hand tells its kind
by its sections, with the functions at the end.
"""

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator

from simulator.specs.base import Spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.runs import Published, Trains

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from simulator.specs.jobs import JobsScenario as JobsScenario
    from simulator.specs.serves import ServingScenario as ServingScenario
    from simulator.specs.workflow import Workflow

__all__ = ["AnyRun", "AnyScenario", "Common", "JobsScenario", "OneScenario", "Published", "Scenario", "ServingScenario"]


class Common(Spec):
    """What every scenario says."""

    folder: ClassVar[str] = "scenarios"

    version: Literal[1]
    """Version of this format."""
    name: str
    """What is simulated, in a line."""
    description: str = ""
    """Longer text, for readers."""
    cluster: Cluster
    """The machine."""
    model: Model
    """The network that is trained or served."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every random choice."""
    published: tuple[Published, ...] = ()
    """Figures to compare with."""


_SERVES = "only a scenario that serves has it, with `serving:` and `requests:` in place of `training:`"
BESIDE_JOBS = "it stands beside `jobs:`, of which one will do: the rest goes under `jobs: [{name: ..., ...}]`"
"""Of what changes on a machine while jobs run."""


SEARCHED: Final = "searched"
IN_ORDER: Final = "in-order"
"""Words for where ranks lie."""


class NodeOrder(Spec):
    """Nodes in the order of the ranks that lie on them."""

    nodes: tuple[Annotated[int, Field(ge=0)], ...]
    """All nodes of the cluster, from 0: the first ranks lie on the first of them."""


def _placed(placement: Any) -> str:
    """Whether a placement is a word or names nodes."""
    return "word" if isinstance(placement, str) else "nodes"


class Scenario(Trains, Common):
    """One simulated training run."""

    placement: Annotated[
        Annotated[Literal["in-order", "searched"], Tag("word")] | Annotated[NodeOrder, Tag("nodes")],
        Discriminator(_placed),
    ] = Field(default=IN_ORDER, exclude_if=lambda placement: placement == IN_ORDER)
    """Which node which ranks lie on: `in-order`; `{nodes: [2, 0, 1]}`, the first ranks on node 2; or `searched`, an
    order that makes the step shorter where pairs of nodes have unequal links, found with the scenario's seed."""

    elsewhere: ClassVar[dict[str, str]] = dict.fromkeys(("slo", "leap", "records"), _SERVES) | {
        "perturbations": BESIDE_JOBS
    }

    @field_validator("cluster")
    @classmethod
    def _equal_nodes(cls, cluster: Cluster) -> Cluster:
        if cluster.more_nodes:
            name = cluster.more_nodes[-1].name
            raise ValueError(
                f"a run that trains takes equal nodes: list it under `jobs`, with `partition: {name}` for those nodes"
            )
        return cluster

    @field_validator("placement")
    @classmethod
    def _every_node_once(cls, placement: str | NodeOrder, known: ValidationInfo) -> str | NodeOrder:
        """An order names each node of the cluster."""
        cluster = known.data.get("cluster")
        if isinstance(placement, str) or cluster is None:
            return placement
        nodes, many = placement.nodes, cluster.nodes
        if len(set(nodes)) < len(nodes):
            raise ValueError(f"node {Counter(nodes).most_common(1)[0][0]} is listed twice")
        if beyond := [node for node in nodes if node >= many]:
            raise ValueError(f"there is no node {beyond[0]}: the cluster has {many:,}, from 0 on")
        if len(nodes) < many:
            missing = sorted(set(range(many)) - set(nodes))
            raise ValueError(
                f"{len(nodes)} of {many} nodes are listed, not node {missing[0]}: write all or fewer `cluster.nodes`"
            )
        return placement


if TYPE_CHECKING:
    OneScenario: TypeAlias = Scenario | ServingScenario
    AnyScenario: TypeAlias = OneScenario | JobsScenario
    AnyRun: TypeAlias = AnyScenario | Workflow


def __getattr__(name: str) -> Any:
    """The other kinds of scenario, and the unions: `OneScenario` is one run, `AnyScenario` what a scenario file may be,
    `AnyRun` what can be checked and swept, a scenario or a workflow."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from simulator.specs.serves import ServingScenario

    if name == "ServingScenario":
        return ServingScenario
    if name == "OneScenario":
        return Scenario | ServingScenario
    from simulator.specs.jobs import JobsScenario

    if name == "JobsScenario":
        return JobsScenario
    from simulator.specs.workflow import Workflow

    found = Scenario | ServingScenario | JobsScenario
    return found if name == "AnyScenario" else found | Workflow


def trains(run: "AnyRun") -> "TypeIs[Scenario]":
    """Whether it is one run that trains."""
    return _has(run, "training")


def serves(run: "AnyRun") -> "TypeIs[ServingScenario]":
    """Whether it is one run that serves."""
    return _has(run, "serving")


def has_jobs(run: "AnyRun") -> "TypeIs[JobsScenario]":
    """Whether it is several runs on one cluster."""
    return _has(run, "jobs")


def is_workflow(run: "AnyRun") -> "TypeIs[Workflow]":
    """Whether it is stages that depend on each other."""
    return _has(run, "stages")


def _has(run: Spec, section: str) -> bool:
    return section in type(run).model_fields
