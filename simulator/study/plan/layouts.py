"""Layouts of a serving system to choose from: listed ones, and those that a cluster has room for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from simulator.errors import InputError, Problem
from simulator.run.kinds import SERVING, ScenarioKind, kind_of, kind_of_fields
from simulator.specs import load_scenario
from simulator.specs.resolve import read_template
from simulator.specs.scenario import ServingScenario
from simulator.study.variants import Axis, combinations, short_name

_CHOSEN = ("serving.parallel", "serving.replicas")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A scenario that may be chosen."""

    file: str
    """Where it comes from."""
    common: tuple[str, ...]
    """Overrides of all candidates."""
    overrides: tuple[str, ...]
    """Those that set it apart from the others."""
    scenario: ServingScenario
    shrinks: bool = False
    """Whether it may have fewer replicas than it says."""

    @property
    def name(self) -> str:
        """What sets it apart from the others; empty where there are none."""
        return short_name(self.overrides)

    @property
    def replicas(self) -> int:
        """Replicas of all pools together."""
        serving = self.scenario.serving
        return sum(pool.replicas for pool in serving.pools) if serving.pools else serving.replicas

    def __reduce__(self) -> tuple[Any, ...]:
        """How it crosses to another process: read again there, for generic specs have no name to import."""
        return candidate, (self.file, self.common, self.overrides, self.shrinks)


def candidate(file: str, common: Sequence[str] = (), overrides: Sequence[str] = (), shrinks: bool = False) -> Candidate:
    """A candidate from its file; InputError for what the loader refuses, and for a scenario that does not serve."""
    scenario = _serving(file, (*common, *overrides))
    return Candidate(file, tuple(common), tuple(overrides), scenario, shrinks)


def candidates(file: str, overrides: Sequence[str], axes: Sequence[Axis], auto: bool) -> list[Candidate]:
    """The scenario of a file with each combination of values, and with `auto` with each layout that has room.

    Raises InputError for a scenario that does not serve, an unknown key, a value that the schema refuses, and a key
    that `auto` chooses itself.
    """
    _check(axes, auto)
    _check_kind(file)
    found = []
    for listed in combinations(axes):
        plain = candidate(file, overrides, listed)
        if auto:
            every = _automatic(plain.scenario)
            found += [candidate(file, overrides, (*listed, *more), shrinks=True) for more in every]
        else:
            found.append(plain)
    return found


def with_replicas(layout: Candidate, replicas: int) -> Candidate:
    """The same layout with another number of replicas, where `auto` made it."""
    serving = layout.scenario.serving.model_copy(update={"replicas": replicas})
    overrides = (*layout.overrides[:-1], f"serving.replicas={replicas}")
    return replace(layout, overrides=overrides, scenario=layout.scenario.model_copy(update={"serving": serving}))


def _check(axes: Sequence[Axis], auto: bool) -> None:
    for axis in axes if auto else ():
        key = axis.key.removeprefix("+")
        if any(key == chosen or key.startswith(f"{chosen}.") for chosen in _CHOSEN):
            hint = "leave out one of the two"
            raise InputError(Problem(f"`--layouts auto` chooses `{key}` itself", hint=hint))


def _check_kind(file: str) -> None:
    """InputError for a file that does not serve, before its keys are looked at: `slo` would be an unknown one."""
    sections = read_template(file).root.children()
    kind = kind_of_fields(dict.fromkeys(sections))
    if kind is not SERVING and kind.name in sections and "requests" not in sections:
        raise _other_kind(file, kind)


def _other_kind(file: str, kind: ScenarioKind) -> InputError:
    message = f"`plan` finds what a scenario that serves can carry, and this one {kind.does}"
    hint = _IN_PLACE[kind.name]
    return InputError(Problem(message, file=file, hint=hint))


_IN_PLACE = {
    "training": "`clustersim plan FILE --free all` finds the fastest layout of it",
    "jobs": "plan the job that serves as a scenario of its own; `clustersim sweep FILE jobs.0.placement=packed,spread`"
    " tries several jobs",
}


def _serving(file: str, overrides: Sequence[str]) -> ServingScenario:
    scenario = load_scenario(file, overrides).scenario
    if not isinstance(scenario, ServingScenario):
        raise _other_kind(file, kind_of(scenario))
    return scenario


def _automatic(scenario: ServingScenario) -> Iterator[tuple[str, ...]]:
    """Tensor parallelism within a node and pipeline stages, both in powers of two, and replicas on all that is left."""
    if scenario.serving.pools:
        hint = "list them: `--vary serving.pools.0.parallel.tp=1,2,4`"
        raise InputError(Problem("`--layouts auto` knows no layouts of `pools`", path="serving.pools", hint=hint))
    cluster = scenario.cluster
    for tp in _powers(cluster.node.devices):
        for pp in _powers(min(cluster.devices // tp, scenario.model.layers)):
            replicas = cluster.devices // (tp * pp)
            yield f"serving.parallel.tp={tp}", f"serving.parallel.pp={pp}", f"serving.replicas={replicas}"


def _powers(largest: int) -> Iterator[int]:
    """1, 2, 4 and so on up to `largest`."""
    return (1 << exponent for exponent in range(largest.bit_length()))
