"""The clusters among which a plan chooses: listed by name, each with one or several numbers of nodes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from simulator.errors import InputError, Problem
from simulator.run.kinds import kind_of
from simulator.specs.resolve import Template, read_template
from simulator.specs.scenario import IN_ORDER, Scenario
from simulator.study import fingerprint
from simulator.study.sweep.evaluate import SEPARATORS

MOST = 256
"""Clusters of one search."""


@dataclass(frozen=True)
class Machine:
    """A cluster with the training that is planned on it."""

    name: str
    scenario: Scenario
    overrides: tuple[str, ...]
    """What makes the scenario's cluster this one."""
    document: str
    """The scenario as plain data in JSON, from which a worker makes it again."""
    key: str
    """Of its outcomes in a cache."""

    @property
    def capacity(self) -> float:
        """Bytes of memory of a device."""
        return float(self.scenario.cluster.node.accelerator.memory.capacity.value)


def machines(
    file: str, overrides: Sequence[str], clusters: Sequence[str] = (), nodes: Sequence[int] = ()
) -> list[Machine]:
    """The clusters to choose from; that of the scenario where none is listed, with its own nodes where none are.

    InputError for a scenario that does not train, for a cluster that is not known, and for nodes that it has not.
    """
    template = read_template(file, overrides)
    kinds: list[tuple[str, ...]] = [(f"cluster={{extends: {name}}}",) for name in clusters] or [()]
    many: list[tuple[str, ...]] = [(f"cluster.nodes={count}",) for count in nodes] or [()]
    if len(kinds) * len(many) > MOST:
        raise InputError(Problem(f"{len(kinds) * len(many):,} clusters are too many", hint=f"list at most {MOST}"))
    return [_machine(template, (*own, *count), file) for own in kinds for count in many]


def _machine(template: Template, overrides: tuple[str, ...], file: str) -> Machine:
    scenario, document = template.changed(overrides).filled()
    if not isinstance(scenario, Scenario):
        raise InputError(Problem(f"this scenario {kind_of(scenario).does}, and layouts are of trainings", file=file))
    if scenario.placement != IN_ORDER:
        hint = "leave `placement` out, and search the order of the layout that is found with `--order`"
        raise InputError(Problem("layouts are searched with ranks in order", file=file, path="placement", hint=hint))
    cluster = scenario.cluster
    name = f"{cluster.nodes:,} x {cluster.name}" if overrides else cluster.name
    text = json.dumps(document, separators=SEPARATORS)
    return Machine(name, scenario, overrides, text, fingerprint.key(scenario))


def numbers(text: str) -> tuple[int, ...]:
    """Numbers of nodes: `8,16`, `8:64` (doubling), `8:64:8` (in steps); ValueError with what to write."""
    found: list[int] = []
    for word in text.split(","):
        parts = word.strip().split(":")
        if not all(one.isascii() and one.isdigit() and 0 < int(one[:9]) <= 1 << 20 for one in parts) or len(parts) > 3:
            raise ValueError(f"{word.strip()[:40]!r} is no number of nodes: write `8,16`, `8:64` or `8:64:8`")
        low, high, *step = [int(parts[0]), int(parts[-1] if len(parts) == 1 else parts[1]), *map(int, parts[2:])]
        if high < low:
            raise ValueError(f"{word.strip()[:40]!r}: the second number is smaller than the first")
        count = low
        while count <= high and len(found) <= MOST:
            found.append(count)
            count = count + step[0] if step else count * 2
    return tuple(dict.fromkeys(found))
