"""Many points of one scenario: simulated in any order on any executor, kept as they come, told in their own order.

The file is read once; what crosses to a worker is plain data, and what comes back too. Points whose scenarios are equal
are simulated once. A point that does not fit into memory or is refused is a row with its reason.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import islice
from json import dumps
from pathlib import Path
from typing import Any

import simulator
from simulator.errors import InputError, Problem, SimulatorError
from simulator.results.documents.sweep import MissedCondition
from simulator.results.prices import unpriced
from simulator.run.kinds import kind_of
from simulator.specs import dump
from simulator.specs.base import Spec
from simulator.specs.resolve import Template, read_template
from simulator.specs.scenario import AnyRun
from simulator.specs.text.overrides import parse
from simulator.specs.text.written import template_of
from simulator.specs.text.yaml_text import plain
from simulator.study import fingerprint, header
from simulator.study.executors import LOOK_S, Cluster
from simulator.study.finished import Finished
from simulator.study.sweep.cache import Cache
from simulator.study.sweep.conditions import Condition, parse_conditions
from simulator.study.sweep.evaluate import Outcome, evaluate
from simulator.study.sweep.points import MOST_DRAWN, Point, points
from simulator.study.sweep.table import BEST_OF_PROMISE, Row, SweepTable
from simulator.study.variants import Axis, parse_axes

_LONGEST_REASON = 120  # letters of what an executor says
_WINDOW = 256
"""Points that wait at an executor."""

Axes = Mapping[str, Sequence[Any]] | Sequence[str]
"""Values by key, or texts of the form `key.path=value,value`."""
Progress = Callable[[int, int], None]
"""Called with how many simulations are done, those that the cache has among them, and of how many."""


def sweep(
    source: str | Path | AnyRun,
    axes: Axes,
    where: Sequence[str] = (),
    random: int | None = None,
    executor: Executor | AbstractContextManager[Executor] | None = None,
    cache: str | Path | None = None,
    progress: Progress | None = None,
    *,
    overrides: Sequence[str] = (),
) -> SweepTable:
    """Simulate every combination of the axes' values, or `random` of them, drawn with the scenario's seed.

    `source` is the file or name of a scenario, or a scenario. `where` are conditions such as `mfu > 0.4`. `executor` is
    any of `concurrent.futures`, or a context in which there is one (it is entered before the cache is opened); without
    one, points are simulated in this process. `cache` is the file in which outcomes are kept and looked up. Raises
    InputError for what could suit no point, where there is no point, and where all are refused.
    """
    template = _template(source).changed(overrides)
    parsed = _axes(axes)
    example = _example(template, parsed)
    kind, seed, about = kind_of(example), example.seed, _header(example, parsed)
    conditions = parse_conditions(where, [_key(axis) for axis in parsed], kind.spec)
    chosen = points(template, parsed, conditions, random, seed)
    distinct = {point.key: point.document for point in chosen if point.key}
    run = _Run(distinct, progress)
    run.execute(executor, cache)
    rows = [_row(point, parsed, _outcome(point, run.found)) for point in chosen]
    _check(rows)
    kept = tuple(row for row in rows if row.status != "ok" or _meets(row, conditions))
    return SweepTable(
        name=_name(chosen),
        kind=kind.name,
        axes={_key(axis): tuple(_values(axis)) for axis in parsed},
        rows=kept,
        where=tuple(where),
        random=random,
        dropped=len(rows) - len(kept),
        simulated=run.simulated,
        reused=len(distinct) - run.simulated,
        notes=tuple(run.notes),
        subject=about,
        changes=tuple(overrides),
        missed=tuple(_missed(rows, conditions)),
        unpriced=tuple(unpriced(dump(example))),
        ranks_by=BEST_OF_PROMISE if any(BEST_OF_PROMISE in row.metrics for row in rows) else "",
        provenance={"version": simulator.__version__, "seed": seed, "program": fingerprint.program()},
    )


class _Run:
    """The simulations of a sweep and what came of them."""

    def __init__(self, documents: Mapping[str, str], progress: Progress | None) -> None:
        self.documents = documents
        self.progress = progress
        self.found: dict[str, Outcome] = {}
        self.simulated = 0
        self.notes: list[str] = []

    def execute(self, executor: Executor | AbstractContextManager[Executor] | None, path: str | Path | None) -> None:
        """Take what the cache knows and simulate the rest."""
        fingerprint.program()  # before workers are forked, which then know it
        with ExitStack() as stack:
            workers = executor
            if executor is not None and not isinstance(executor, Executor) and not hasattr(executor, "submit"):
                workers = stack.enter_context(executor)
            cache = stack.enter_context(Cache(path) if path is not None else nullcontext())
            if cache is not None:
                self.found = cache.known(self.documents)
                if cache.set_aside is not None:
                    self.notes.append(f"the cache is of another version: it is now `{cache.set_aside}`")
            missing = {key: document for key, document in self.documents.items() if key not in self.found}
            if self.progress is not None:
                self.progress(len(self.found), len(self.documents))
            finished = Finished[Outcome]()
            if workers is not None:
                stack.enter_context(finished.interrupted())
            for key, outcome in _outcomes(missing, workers, finished):
                self.found[key] = outcome
                self.simulated += 1
                if cache is not None and not self._kept(key, outcome, cache):
                    cache = None
                if self.progress is not None:
                    self.progress(len(self.found), len(self.documents))

    def _kept(self, key: str, outcome: Outcome, cache: Cache) -> bool:
        """Whether the cache still takes outcomes; what is simulated must not be lost because it cannot be kept."""
        if outcome.status == "failed":
            return True
        try:
            cache.keep(key, outcome)
        except InputError as error:
            self.notes.append(f"nothing more is kept from here on: {error}")
            return False
        return True


def _template(source: str | Path | AnyRun) -> Template:
    return template_of(source) if isinstance(source, Spec) else read_template(source)


def _axes(axes: Axes) -> tuple[Axis, ...]:
    texts = axes
    if isinstance(axes, Mapping):
        texts = [f"{key}={','.join(map(_text, values))}" for key, values in axes.items()]
    parsed = parse_axes(texts, MOST_DRAWN)
    if not parsed:
        raise InputError(Problem("nothing is varied", hint="write `key.path=value,value`"))
    return parsed


def _text(value: Any) -> str:
    """A value as YAML that stands on a line; text as it would be typed."""
    return value if isinstance(value, str) and "," not in value else dumps(value)


def _example(template: Template, axes: Sequence[Axis]) -> AnyRun:
    """The scenario; where it is only whole with values of the axes, with the first of each."""
    try:
        return template.filled()[0]
    except InputError:
        return template.changed([axis.overrides[0] for axis in axes]).filled()[0]


def _header(example: AnyRun, axes: Sequence[Axis]) -> dict[str, str]:
    """What no axis varies, in words."""
    varied = tuple(_NUMBER.sub(".*", _key(axis)) for axis in axes)
    known = header.scenario_fields(dump(example))
    for name, paths in header.DEPENDS.items():
        if any(
            key == path or key.startswith(f"{path}.") or path.startswith(f"{key}.") for key in varied for path in paths
        ):
            known.pop(name, None)
    return {name: words for name, words in known.items() if name != "scenario"}


def _key(axis: Axis) -> str:
    return axis.key.removeprefix("+")


_NUMBER = re.compile(r"\.\d+(?=\.|$)")
"""Number of an item of a list in a key."""


def _values(axis: Axis) -> Iterator[Any]:
    return (plain(parse(text).value) for text in axis.overrides)


def _outcomes(
    documents: Mapping[str, str], executor: Any, finished: Finished[Outcome]
) -> Iterator[tuple[str, Outcome]]:
    """The outcome of each document, as they come."""
    program, todo = fingerprint.program(), iter(documents.items())
    if executor is None:
        yield from ((key, evaluate(document, program)) for key, document in todo)
        return
    waiting: dict[Future[Outcome], str] = {}
    try:
        while True:
            for key, document in islice(todo, _WINDOW - len(waiting)):
                future = executor.submit(evaluate, document, program)
                waiting[future] = key
                finished.add(future)
            if not waiting:
                return
            future = _done(finished, executor)
            yield waiting.pop(future), _result(future)
    finally:
        for future in waiting:
            future.cancel()


def _done(finished: Finished[Outcome], executor: Any) -> Future[Outcome]:
    """The next that ends; a cluster that has no workers would else be waited for without end."""
    watched = isinstance(executor, Cluster)
    while True:
        done = finished.next(LOOK_S if watched else None)
        if done is not None:
            return done
        executor.check()


def _result(future: "Future[Outcome]") -> Outcome:
    try:
        return future.result()
    except SimulatorError:
        raise
    except Exception as error:  # of the executor: a point's own errors are its outcome
        again = "run the same sweep again: what is in the cache is not repeated"
        if isinstance(error, BrokenExecutor):
            message, cure = "a worker was lost, perhaps for lack of memory", "fewer jobs need less of it"
        else:
            reason = (str(error).splitlines() or [""])[0][:_LONGEST_REASON]
            message = f"a worker cannot simulate ({type(error).__name__}: {reason})"
            cure = "on a cluster, scheduler and workers need the same clustersim"
        raise InputError(Problem(message, hint=f"{cure}; {again}")) from error


def _outcome(point: Point, found: Mapping[str, Outcome]) -> Outcome:
    return found[point.key] if point.key else Outcome("refused", point.reason)


def _row(point: Point, axes: Sequence[Axis], outcome: Outcome) -> Row:
    values = dict(zip(map(_key, axes), point.values, strict=True))
    return Row(
        point.number,
        point.overrides,
        values,
        outcome.status,
        outcome.reason,
        outcome.metrics or {},
        outcome.warnings,
        point.scenario,
        point.ground,
    )


def _check(rows: Sequence[Row]) -> None:
    """InputError where nothing could be simulated, with the reasons."""
    if all(row.status == "refused" for row in rows):
        reasons = list(dict.fromkeys(row.reason for row in rows))
        more = [f"... and {len(reasons) - 5:,} more reasons"] if len(reasons) > 5 else []
        raise InputError(f"all of the {len(rows):,} points are refused:", *reasons[:5], *more)


def _meets(row: Row, conditions: Sequence[Condition]) -> bool:
    return all(condition.holds(row.metrics.get(condition.key)) for condition in conditions if condition.of == "metric")


def _missed(rows: Sequence[Row], conditions: Sequence[Condition]) -> Iterator[MissedCondition]:
    """What the metrics of the conditions were, over the points that fit."""
    fitting = [row.metrics for row in rows if row.status == "ok"]
    for condition in conditions:
        if condition.of == "metric":
            known = [value for metrics in fitting if (value := metrics.get(condition.key)) is not None]
            if known:
                met = sum(condition.holds(value) for value in known)
                yield MissedCondition(condition.text, condition.key, min(known), max(known), met)


def _name(chosen: Sequence[Point]) -> str:
    return next((point.name for point in chosen if point.name), "")
