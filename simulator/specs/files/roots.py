"""Which spec a file of a run is, by its sections, without loading the specs of the others.

A file that trains loads what trains. Where its sections do not say what it is, or it has a key that its kind does not
know, all kinds are loaded, so that every key is known for what it is and messages name what it may be.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.specs.files.shape import Kind, fields

if TYPE_CHECKING:
    from simulator.specs.scenario import AnyRun


@dataclass(frozen=True, slots=True)
class Root:
    """The root of a file that may be of several kinds."""

    folders: tuple[str, ...]
    """Data rooms in which its name is looked up."""
    workflows: bool
    """Whether it may be a workflow."""

    def of(self, keys: Iterable[str]) -> Kind:
        """The type of a root with these keys: one kind that has them all, else any."""
        known = dict.fromkeys(keys)
        if {"training", "serving", "requests", "jobs", "stages"} & known.keys() and "extends" not in known:
            kind = chosen(known)
            alone = self.workflows and "stages" in known  # no other kind has stages
            if alone or (known.keys() <= fields(kind).keys() and "stages" not in known):
                return kind
        from simulator.specs.scenario import AnyRun, AnyScenario

        return AnyRun if self.workflows else AnyScenario


SCENARIOS = Root(("scenarios",), workflows=False)
"""Files that hold a scenario."""
RUNS = Root(("scenarios", "workloads/workflows"), workflows=True)
"""Files that hold a scenario or a workflow."""


def chosen(sections: Mapping[str, Any]) -> "type[AnyRun]":
    """Which kind of scenario has these sections, or whether a workflow has."""
    if "stages" in sections:
        from simulator.specs.workflow import Workflow

        return Workflow
    if "jobs" in sections:
        from simulator.specs.jobs import JobsScenario

        return JobsScenario
    if serves(sections):
        from simulator.specs.serves import ServingScenario

        return ServingScenario
    from simulator.specs.scenario import Scenario

    return Scenario


def serves(sections: Mapping[str, Any]) -> bool:
    """Whether a run of these sections serves."""
    return "training" not in sections and not {"serving", "requests"}.isdisjoint(sections)
