"""A regression check in words: for each scenario the three lines that a reviewer needs, and a table for all.

The lines say what moved, through which operations, and why that may be and how to accept it; a fourth one between which
values measured runs are expected, where published runs say so.
"""

from collections.abc import Iterable, Sequence

from simulator import units
from simulator.axes import AXES
from simulator.metrics import METRICS
from simulator.report.serving.contents import WORDS as REQUEST
from simulator.report.text import wording
from simulator.report.text.intervals import ends
from simulator.report.text.palette import part
from simulator.report.text.plain import clean
from simulator.results.documents.check import CheckDocument, CheckedScenario, FitBeforeAfter, MovedFigure, MovedPart
from simulator.results.metrics import metric

MOST_CAUSES = 3
"""Operations that are named of a scenario."""
MOST_FIGURES = 2
"""Figures that are named of a scenario."""
STATES = {
    "same": "same",
    "moved": "MOVED",
    "missing": "NO BASELINE",
    "gone": "NO SCENARIO",
    "refused": "CANNOT CHECK",
    "new": "new",
    "rewritten": "rewritten",
    "removed": "removed",
}
"""States in words."""
_OF = {
    "serving": {"operations": "iteration", "breakdown": "request"},
    "jobs": {"operations": "times of all jobs", "breakdown": "time until all jobs are done"},
    "workflow": {"breakdown": "time of all iterations"},
}
_WHOLE = {"breakdown": "step", "critical_path": "step", "links": "step", "memory": "memory"}


def lines(entry: CheckedScenario) -> list[str]:
    """What a reviewer needs to know of one scenario: a few lines where it moved or has no baseline, else problems."""
    if entry.state == "refused":
        return [clean(problem.text) for problem in entry.problems]
    if entry.state == "missing":
        return [f"there is no baseline {clean(entry.baseline)}", _now(entry), f"make it: {clean(entry.accept)}"]
    if entry.state == "gone":
        there = f"its scenario is gone, its baseline {clean(entry.baseline)} is not"
        return [there, f"if it should: {clean(entry.accept)}"]
    if entry.state in ("same", "removed"):
        return []
    return [moved(entry), f"through {through(entry)}", reason(entry), *expected(entry)]


def moved(entry: CheckedScenario) -> str:
    """The figures that moved, the headline first: `step time 14.8 s to 15.1 s (+2.0 %), slower; 8 more figures`."""
    said = _fitting(entry.feasible)
    figures = entry.moved
    said += [_figure(one) for one in figures[:MOST_FIGURES]]
    if len(figures) > MOST_FIGURES:
        said.append(wording.plural(len(figures) - MOST_FIGURES, "more figure"))
    return "; ".join(said) or "no figure moved, but what the time consists of did"


def through(entry: CheckedScenario) -> str:
    """The operations that made it move: `reduce gradients (dp) over NIC up +2.0 % (+0.3 points of the step)`."""
    named = [_cause(one, entry.kind) for one in entry.through[:MOST_CAUSES]]
    left = len(entry.through) - len(named)
    more = [wording.plural(left, "more part")] if left > 0 else []
    return ", ".join([*named, *more]) or "no operation in particular"


def expected(entry: CheckedScenario) -> Iterable[str]:
    """Between which values a measured run is expected, of the first figure of which that is known."""
    one = next((one for one in entry.moved if one.interval is not None), None)
    if one is None or one.interval is None:
        return
    where = {
        True: "; the figure before lies inside: a measured run may not show the move, but the simulator has no noise",
        False: "; the figure before lies outside",
        None: "",
    }
    said = f"{label(one.metric)} of measured runs is expected at {ends(one.metric, one.interval)}"
    yield f"{said} ({one.interval.basis}){where[one.inside]}"


def reason(entry: CheckedScenario) -> str:
    """Whether the scenario or the simulator is another one, and the command that accepts it."""
    versions = entry.version
    version = f"version {versions.before}"
    if versions.before != versions.after:
        version = f"version {versions.before} to {versions.after}"
    if entry.edited:
        why = f"the scenario says otherwise in {clean(', '.join(map(str, entry.edited)))} ({version})"
    else:
        why = f"the scenario says the same, the simulator or a file that it reads does not ({version})"
    done = entry.state == "rewritten"
    return why if done else f"{why}; if it should: {clean(entry.accept)}"


def summary(document: CheckDocument) -> str:
    """How many scenarios are in which state: `33 scenarios: 31 same, 2 moved`."""
    states = [entry.state for entry in document.scenarios]
    words = {"missing": "without a baseline", "refused": "that cannot be checked"}
    counts = [f"{states.count(state)} {words.get(state, state)}" for state in STATES if state in states]
    return f"{wording.plural(len(states), 'scenario')}: {', '.join(counts)}"


def table(document: CheckDocument) -> str:
    """The scenarios that are not the same as a Markdown table, with notes and the summary above it."""
    rows = [row for entry in document.scenarios for row in _rows(entry)]
    text = [f"**{_cell(summary(document))}**", ""]
    if rows:
        head = ("scenario", "figure", "before", "after", "change", "expected", "through")
        text += ["| " + " | ".join(head) + " |", "| --- | --- | ---: | ---: | ---: | ---: | --- |"]
        text += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows] + [""]
    text += [f"- {_cell(note)}" for note in document.notes]
    return "\n".join(text).rstrip("\n") + "\n"


def _rows(entry: CheckedScenario) -> Iterable[Sequence[str]]:
    """Rows of the table: the first figures that moved, or one row that says what is the matter."""
    file = entry.file
    if entry.state == "same":
        return
    if entry.state in ("missing", "new"):
        yield file, STATES[entry.state], "", _now(entry), "", "", entry.accept if entry.state == "missing" else ""
    elif entry.state in ("refused", "gone", "removed"):
        yield file, STATES[entry.state], "", "", "", "", "; ".join(lines(entry))
    else:
        figures = entry.moved[:MOST_FIGURES] or [None]
        for number, one in enumerate(figures):
            shown = ("parts of the time", "", "", "", "") if one is None else _cells(one)
            more = "; ".join([*_fitting(entry.feasible), through(entry)])
            yield file if number == 0 else "", *shown, more if number == 0 else ""


def _cells(one: MovedFigure) -> tuple[str, str, str, str, str]:
    before, after = _value(one.metric, one.before), _value(one.metric, one.after)
    return label(one.metric), before, after, change(one.change), ends(one.metric, one.interval) if one.interval else ""


def _cell(text: str) -> str:
    """Text that stays in its cell of a Markdown table and is no markup."""
    plain = clean(text).replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in "|`*_[]":
        plain = plain.replace(mark, f"\\{mark}")
    return plain


def _now(entry: CheckedScenario) -> str:
    """The headline figure of a run."""
    name = next((name for name in ("step_time_s", "mean_e2el_ms", "makespan_s") if name in entry.metrics), None)
    return f"{label(name)} {wording.figure(name, entry.metrics[name])}" if name else "no figures"


def label(name: str) -> str:
    """A metric in words."""
    return METRICS[name].label if name in METRICS else clean(name)


def _figure(one: MovedFigure) -> str:
    """A figure with both values, or with one where they look the same."""
    if one.before is None or one.after is None:
        return f"{label(one.metric)} {'is new' if one.before is None else 'is gone'}"
    before, after = _value(one.metric, one.before), _value(one.metric, one.after)
    values = after if before == after else f"{before} to {after}"
    return f"{label(one.metric)} {values} ({change(one.change)}){_direction(one.metric, one.before, one.after)}"


def _direction(name: str, before: float, after: float) -> str:
    sense = metric(name).sense if name in METRICS else "size"
    if sense == "size":
        return ""
    return ", worse" if (after > before) == (sense == "time") else ", better"


def _value(name: str, value: float | None) -> str:
    return "-" if value is None else wording.figure(name, value)


def change(ratio: float | None) -> str:
    """A relative change with its sign, also where it is tiny."""
    if ratio is None:
        return "new"
    return f"{100 * ratio:+.1f} %" if abs(ratio) >= 1e-3 else f"{100 * ratio:+.2g} %"


def _fitting(feasible: FitBeforeAfter | None) -> list[str]:
    if not feasible or feasible.before == feasible.after:
        return []
    return ["is feasible again" if feasible.after else "is infeasible now (out of memory, or no request can run)"]


def _cause(one: MovedPart, kind: str | None) -> str:
    whole = _OF.get(kind or "", {}).get(one.table) or _WHOLE.get(one.table, "step")
    weight = "hidden beside other work" if one.hidden else f"{_points(one.share)} of the {whole}"
    return f"{_part(one, kind)} {_moved_by(one)} ({weight})"


def _part(one: MovedPart, kind: str | None) -> str:
    name = clean(one.name)
    if kind == "jobs" and one.table in ("breakdown", "operations"):
        job, colon, own = name.rpartition(": ")
        return f"{job}{colon}{REQUEST.get(own) or part(own)[1]}"
    if one.table == "breakdown":
        return REQUEST.get(name, name) if kind == "serving" else name.replace("exposed_", "exposed ")
    if one.table == "links":
        return "latency of communication" if name == "latency" else f"communication over {name}"
    if kind == "serving" and one.table == "operations":
        return f"{name} communication" if AXES.has(name.rpartition(": ")[2]) else name
    axis = f" ({one.axis})" if one.axis else ""
    link = f" over {clean(one.link)}" if one.link else ""
    exposed = ", exposed" if axis and one.table == "critical_path" and not one.hidden else ""
    return f"{name.removesuffix(' tp') if axis else name}{axis}{link}{exposed}"


def _moved_by(one: MovedPart) -> str:
    if one.table == "memory" and not one.before:
        return f"is new, {units.format(one.after, 'bytes')}"
    return "is new" if one.change is None else "is gone" if not one.after else change(one.change)


def _points(share: float) -> str:
    points = 100 * share
    return f"{points:+.2f} points" if abs(points) >= 0.1 else f"{points:+.2g} points"
