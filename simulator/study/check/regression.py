"""A regression check as a whole: scenarios simulated, held against their baselines, and on request written anew."""

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Literal

from simulator.errors import InputError, Problem, SimulatorError
from simulator.results.documents.check import (
    CheckDocument,
    CheckedScenario,
    FitBeforeAfter,
    MovedFigure,
    StatedProblem,
    VersionBeforeAfter,
)
from simulator.results.spread import Interval
from simulator.results.writing import check_writable
from simulator.run.dispatch import simulate
from simulator.specs.resolve import load_run
from simulator.study.check import baseline
from simulator.study.check.baseline import Baseline
from simulator.study.check.cases import Case, find, orphans
from simulator.study.check.check import Tolerances, Verdict, check, slowest_links
from simulator.study.executors import each

State = Literal["same", "moved", "missing", "gone", "refused", "new", "rewritten", "removed"]
"""`missing`: there is no baseline; `gone`: there is one, but no scenario any more; `refused`: it could not be
simulated, or its baseline not be read; `new`, `rewritten` and `removed` with `--update` only."""
FAILED: Mapping[str, int] = {"moved": 1, "missing": 1, "gone": 1, "refused": InputError.exit_code}
"""Exit code of each state that is a failure."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What became of one scenario."""

    case: Case
    state: State
    before: Baseline | None = None
    after: Baseline | None = None
    verdict: Verdict | None = None
    """None where one of both is missing."""
    problems: tuple[Problem, ...] = ()
    """Why it was refused."""
    seconds: float = 0.0
    """How long loading its baseline and simulating took; of this machine."""
    links: Mapping[str, str] = field(default_factory=dict)
    """The slowest link of each communication."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Between which values measured figures are expected, by metric."""


def cases_of(paths: Sequence[str], folder: str) -> tuple[list[Case], list[str]]:
    """The scenarios below paths with the places of their baselines, and notes, see `cases.find`."""
    if not _fit_for_a_folder(Path(folder)):
        raise InputError(Problem("is no folder", file=folder, hint="name the folder of baselines"))
    return find(paths, Path(folder))


def gone(paths: Sequence[str], folder: str, update: bool) -> list[Checked]:
    """The baselines whose scenario is gone from the folders among `paths`; with `update` they are removed."""
    found = orphans(paths, Path(folder))
    if update:
        for case in found:
            case.baseline.unlink()
    return [Checked(case, "removed" if update else "gone") for case in found]


def run(
    cases: Sequence[Case],
    tolerances: Tolerances,
    jobs: int = 1,
    update: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Checked]:
    """Check scenarios on `jobs` processes, in their order; with `update` write the baselines of those that differ.

    Problems of one scenario are reported with it and stop no other. InputError where a baseline cannot be written.
    """
    if update:
        _check_places(cases)
    checked = each(partial(check_case, tolerances=tolerances, update=update), cases, jobs, progress)
    return [_updated(one, tolerances) if update else one for one in checked]


def check_case(case: Case, tolerances: Tolerances, update: bool = False) -> Checked:
    """Simulate one scenario and hold it against its baseline; with `update` a damaged baseline is as none."""
    begin = perf_counter()
    if case.name is None:
        return Checked(case, "refused", problems=case.problems)
    before, problems = _before(case.baseline)
    if problems and (not update or baseline.is_foreign(case.baseline)):
        return Checked(case, "refused", problems=problems)
    try:
        loaded = load_run(case.path)
        with loaded.placed():
            result = simulate(loaded.scenario)
    except SimulatorError as error:
        if error.exit_code == SimulatorError.exit_code:
            raise
        problems = error.problems if isinstance(error, InputError) else (Problem(str(error)),)
        return Checked(case, "refused", before, problems=tuple(_of(case, one) for one in problems))
    after, links = baseline.observe(result), slowest_links(result)
    verdict = check(before, after, tolerances, links) if before else None
    state: State = "missing" if verdict is None else "same" if verdict.same else "moved"
    expected = result.intervals if result.feasible else {}
    return Checked(case, state, before, after, verdict, (), perf_counter() - begin, links, expected)


def _before(path: Path) -> tuple[Baseline | None, tuple[Problem, ...]]:
    try:
        return baseline.read(path), ()
    except InputError as error:
        return None, error.problems


def _of(case: Case, problem: Problem) -> Problem:
    return problem if problem.file else replace(problem, file=case.file)


def _updated(one: Checked, tolerances: Tolerances) -> Checked:
    """Written, where it has another answer to the last of twelve digits, or another scenario.

    The figures that moved beyond their tolerance come first: pages name only the first ones.
    """
    if one.after is None:
        return one
    if one.before is not None and replace(one.before, version=one.after.version) == one.after:
        return replace(one, state="same")
    baseline.write(one.case.baseline, one.after)
    if one.before is None:
        return replace(one, state="new")
    verdict = check(one.before, one.after, Tolerances(), one.links)
    beyond = {moved.metric for moved in check(one.before, one.after, tolerances, one.links).moved}
    ordered = tuple(sorted(verdict.moved, key=lambda moved: moved.metric not in beyond))
    return replace(one, state="same" if verdict.same else "rewritten", verdict=replace(verdict, moved=ordered))


def _check_places(cases: Iterable[Case]) -> None:
    """InputError naming every folder in which baselines could not be written, before anything is simulated."""
    problems: dict[Problem, None] = {}
    for place in {_existing(case.baseline.parent): None for case in cases}:
        try:
            check_writable(place / "baseline.json")
        except InputError as error:
            hint = "name another folder with --baseline"
            problems |= {replace(one, file=str(place), hint=hint): None for one in error.problems}
    if problems:
        raise InputError(*problems)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that exists."""
    return next((one for one in (folder, *folder.parents) if one.exists()), folder)


def _fit_for_a_folder(path: Path) -> bool:
    """Whether it is a folder or could become one."""
    with suppress(FileNotFoundError, NotADirectoryError):
        try:
            os.stat(path)
        except ValueError:  # no file has such a name
            return False
    return _existing(path).is_dir()


def exit_code(checked: Iterable[Checked]) -> int:
    """0 where all are as they were, 1 where one moved or lacks baseline or scenario, 2 where one cannot be checked."""
    return max((FAILED.get(one.state, 0) for one in checked), default=0)


def document(
    checked: Sequence[Checked], folder: str, tolerances: Tolerances, notes: Sequence[str] = ()
) -> CheckDocument:
    """The check as it is written and drawn; nothing in it depends on the machine."""
    return CheckDocument(
        passed=exit_code(checked) == 0,
        baseline=folder,
        tolerance={"default": tolerances.default, **tolerances.named},
        scenarios=tuple(_entry(one, folder) for one in checked),
        notes=tuple(notes),
    )


def _expected(figure: MovedFigure, intervals: Mapping[str, Interval]) -> MovedFigure:
    """A figure with the interval around what it is now."""
    known = intervals.get(figure.metric)
    inside = None if known is None or figure.before is None else known.low <= figure.before <= known.high
    return replace(figure, interval=known, inside=inside)


def _entry(one: Checked, folder: str) -> CheckedScenario:
    verdict, known, named = one.verdict, one.after or one.before, one.case.argument or one.case.file
    before, after = one.before, one.after
    return CheckedScenario(
        file=one.case.file,
        name=one.case.name,
        kind=known.kind if known else None,
        baseline=str(one.case.baseline),
        state=one.state,
        metrics=after.metrics if after else {},
        moved=tuple(_expected(figure, one.intervals) for figure in verdict.moved) if verdict else (),
        through=verdict.causes if verdict else (),
        feasible=FitBeforeAfter(verdict.fitted, verdict.fits) if verdict else None,
        edited=verdict.edited if verdict else (),
        version=VersionBeforeAfter(before.version if before else None, after.version if after else None),
        problems=tuple(StatedProblem(**asdict(problem), text=str(problem)) for problem in one.problems),
        accept=shlex.join(["clustersim", "check", named, "--baseline", folder, "--update"]),
    )
