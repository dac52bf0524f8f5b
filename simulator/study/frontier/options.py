"""Workers of a scenario measured in closed form, each mesh once for all its limits."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simulator.errors import InputError
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario
from simulator.study.frontier.bounds import Ceiling, ceiling, within
from simulator.study.frontier.guess import guess
from simulator.study.frontier.space import Structure, Worker
from simulator.study.frontier.work import Promise, Work, work_of
from simulator.study.plan.plan import slo_of

Mesh = tuple[int, int, int, int, int]


@dataclass(frozen=True)
class Base:
    """What all candidates have in common."""

    file: str
    overrides: tuple[str, ...]
    sizes: tuple[int, ...]
    """Requests of the runs."""
    sequences: tuple[int, ...]
    chunks: tuple[int, ...]


@dataclass(frozen=True)
class Option:
    """A worker and what it can do."""

    worker: Worker
    ceiling: Ceiling
    most: float
    """Decodes of a rank at once at most, of memory, limit and promise, where it works on prompts too; 0: none."""
    late: bool = False
    """Whether too few requests can keep to the objectives, however little there is to do."""
    prompts_late: bool = False
    """Whether its prompts alone take too long."""
    decodes_late: bool = False
    """Whether its steps alone take too long."""


@dataclass(frozen=True)
class Measured:
    """The workers of one mesh."""

    mesh: Mesh
    options: tuple[Option, ...] = ()
    refused: str = ""
    """Why there are none: `shape` or `memory`."""
    reason: str = field(default="", compare=False)


def measure(mesh: Mesh, base: Base) -> Measured:
    """All workers of a mesh with the limits of `base`."""
    scenario = serving(base, ())
    tightest = Worker(*mesh, min(base.sequences), max(min(base.chunks), min(base.sequences)))
    try:
        system = resolve(serving(base, Structure(tightest, 1, 1).overrides(scenario)))[0]
    except InputError as error:
        return Measured(mesh, refused="shape", reason=" ".join(str(error).split()))
    work, promise = work_of(scenario, base.sizes), Promise.of(slo_of(scenario))
    if not system.cost.fits:
        return Measured(mesh, refused="memory")
    most = ceiling(system, work, max(base.sequences), max(base.chunks))
    if not most.fits:
        return Measured(mesh, refused="memory", reason="the longest request does not fit into the cache")
    found = []
    for chunk in base.chunks:
        own = replace(most, guess=guess(system, work, max(base.sequences), chunk))
        for sequences in (each for each in base.sequences if each <= chunk):
            found.append(_option(Worker(*mesh, sequences, chunk), own.limited(sequences), work, promise))
    return Measured(mesh, tuple(found))


def _option(worker: Worker, own: Ceiling, work: Work, promise: Promise) -> Option:
    may_miss = 1.0 - promise.share + 1e-9
    prompts = Promise(promise.ttft, None, None, promise.share)
    decodes = Promise(None, promise.tpot, None, promise.share)
    return Option(
        worker,
        own,
        most=min(own.most, within(own, promise, work)),
        late=work.above(own.ttft_token, own.shortest_step, promise) > may_miss,
        prompts_late=work.above(own.ttft_token, 0.0, prompts) > may_miss,
        decodes_late=work.above(0.0, own.shortest_step, decodes) > may_miss,
    )


def serving(base: Base, overrides: Sequence[str]) -> ServingScenario:
    """The scenario with changes."""
    scenario = load_scenario(base.file, (*base.overrides, *overrides)).scenario
    assert isinstance(scenario, ServingScenario)
    return scenario.model_copy(update={"published": ()})
