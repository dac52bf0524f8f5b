"""The root of a scenario file."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from simulator.specs.base import Spec
from simulator.specs.hardware import Cluster
from simulator.specs.jobs import JobsScenario
from simulator.specs.model import Model
from simulator.specs.runs import Published, Serves, Trains
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
_TRAINS = "only a scenario that trains has it, with `training:` in place of `serving:` and `requests:`"


class Scenario(Trains, Common):
    """One simulated training run."""

    elsewhere: ClassVar[dict[str, str]] = dict.fromkeys(("slo", "leap", "records"), _SERVES)

    @field_validator("cluster")
    @classmethod
    def _equal_nodes(cls, cluster: Cluster) -> Cluster:
        if cluster.more_nodes:
            name = cluster.more_nodes[-1].name
            raise ValueError(
                f"a run that trains takes equal nodes: list it under `jobs`, with `partition: {name}` for those nodes"
            )
        return cluster


class ServingScenario(Serves, Common):
    """One simulated serving run."""

    elsewhere: ClassVar[dict[str, str]] = {"fold": _TRAINS}


OneScenario = Scenario | ServingScenario
"""One run."""

AnyScenario = OneScenario | JobsScenario
"""What a scenario file may be."""

AnyRun = AnyScenario | Workflow
"""What can be checked and swept: a scenario or a workflow."""
