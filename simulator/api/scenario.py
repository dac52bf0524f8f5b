"""Scenarios and workflows that remember how they were read, so that they can be changed; changes as Python values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import simulator.run  # noqa: F401  (the readers of foreign files)
from simulator.api.arguments import as_yaml, path_of, shown, strings
from simulator.errors import InputError, Problem
from simulator.specs.resolve import load_run
from simulator.specs.scenario import AnyRun

Overrides = Mapping[str, Any] | Sequence[str] | str | None
"""Changes of a scenario: `{"training.micro_batch": 2}`, or `["training.micro_batch=2"]` as on the command line."""
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario or a workflow that was read and checked."""

    path: str
    """File, or name of a shipped scenario, as it was given."""
    overrides: tuple[str, ...]
    """Changes in the form of the command line."""
    spec: AnyRun
    """The resolved scenario: every value, in SI units, with what was left out filled in."""
    origins: dict[str, str]
    """Where each value comes from, by its path such as `training.parallel.tp`."""
    sources: tuple[str, ...]
    """Files that were read."""

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.spec.name

    @property
    def kind(self) -> str:
        """`training`, `serving`, `jobs` or `workflow`."""
        from simulator.run.kinds import kind_of

        return kind_of(self.spec).name

    def change(self, overrides: Overrides) -> "Scenario":
        """The same file read again with further overrides; InputError with every problem found."""
        return load(self.path, [*self.overrides, *texts(overrides)])

    def __repr__(self) -> str:
        """Name, kind and how it was read."""
        changed = f", {list(self.overrides)}" if self.overrides else ""
        return f"Scenario({self.name!r}, {self.kind}, {self.path!r}{changed})"


def load(path: str | PathLike[str], overrides: Overrides = ()) -> Scenario:
    """Read a scenario or a workflow, a YAML file or the name of a shipped one, and apply overrides.

    Arguments:

    * `path`: a YAML file, or a name such as `"quickstart"`, `"serving/quickstart"` or, of a workflow, `"ppo-70b"`.
    * `overrides`: a mapping of `key.path` to values, or a list of `key.path=value`. `+key.path` adds a key that is not
      there, `~key.path` (with None) takes one away. Quantities are text with their unit: `{"slo.ttft": "500 ms"}`.

    Raises InputError with every problem found, each with its file and line.
    """
    name, changes = path_of("path", path), texts(overrides)
    loaded = load_run(name, changes)
    return Scenario(name, changes, loaded.scenario, loaded.origins, loaded.sources)


def texts(overrides: Overrides) -> tuple[str, ...]:
    """Overrides in the form of the command line; InputError for a value that YAML does not have."""
    if overrides is None:
        return ()
    if isinstance(overrides, Mapping):
        return tuple(_text(key, value) for key, value in overrides.items())
    return strings("overrides", overrides, '{"training.micro_batch": 2} or ["training.micro_batch=2"]')


def _text(key: str, value: Any) -> str:
    if not isinstance(key, str):
        raise InputError(Problem(f"{shown(key)} is no key", hint="write `training.parallel.tp`"))
    if not key.startswith("~"):
        return f"{key}={as_yaml(key, value)}"
    if value is not None:
        raise InputError(Problem("a key that is taken away has no value", file=key[:_LONGEST], hint="write None"))
    return key
