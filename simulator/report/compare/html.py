"""A comparison as one self-contained HTML file; reads the document that `study.compare.document` makes."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import simulator
from simulator import units
from simulator.report.compare.page import ALIKE, Cell, cells, chosen, fits, header_lines, held_against, label, title
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.html.page import standalone
from simulator.report.html.parts import expected, ground, heading, notes, sections, table
from simulator.report.serving.contents import WORDS
from simulator.report.serving.html import SLOTS
from simulator.report.svg import pictures
from simulator.report.text import intervals, palette, wording
from simulator.report.text.column_titles import short
from simulator.report.text.grounds import expected_memory, grounds
from simulator.results.documents.comparison import ComparedRun, ComparisonDocument

_LONGEST_NAME = 24  # what stands beside a bar
_MOST_COLUMNS = 4  # runs from which on each is a row
_INVISIBLE = 0.0005  # share of the first one's time that prints as 0.0


def page(document: ComparisonDocument) -> str:
    """The page as text of an HTML file."""
    return standalone(title(document), _body(numbered(document)), f"clustersim {simulator.__version__}")


def numbered(document: ComparisonDocument) -> ComparisonDocument:
    """The document with numbers before its names where these are so long that they may be cut."""
    names = document.names
    if max(map(len, names)) <= _LONGEST_NAME:
        return document
    known = {name: f"{number} {name}" for number, name in enumerate(names, start=1)}
    return replace(
        document,
        names=tuple(known[name] for name in names),
        runs=tuple(replace(run, name=known[run.name]) for run in document.runs),
        metrics={
            metric: replace(row, best=tuple(known[name] for name in row.best))
            for metric, row in document.metrics.items()
        },
    )


def part(key: str) -> tuple[int, str]:
    """Slot and words of a part of a step or of a request."""
    return (SLOTS[key], WORDS[key]) if key in SLOTS else palette.part(key)


def kinds(document: ComparisonDocument) -> list[tuple[str, list[ComparedRun]]]:
    """Runs whose time is known, by what that time is of: a step, a request or several jobs."""
    named = {
        "training": "Where the step goes",
        "serving": "Where the time of a request goes",
        "jobs": "Where the time goes until all jobs are done",
        "workflow": "Stages on which an iteration hangs",
    }
    found = [(words, [run for run in document.runs if run.kind == kind and run.parts]) for kind, words in named.items()]
    return [(words, runs) for words, runs in found if runs]


def visible(runs: Sequence[ComparedRun]) -> list[str]:
    """Parts that are worth a colour, in their order."""
    keys = dict.fromkeys(key for run in runs for key in run.parts)
    return [key for key in keys if any(run.parts.get(key, 0.0) >= _INVISIBLE for run in runs)]


def differences(document: ComparisonDocument) -> Iterable[Markup]:
    """The sentences."""
    if document.differences:
        yield tag("p", held_against(document), class_="soft small")
        yield from notes([difference.sentence for difference in document.differences])


def times(document: ComparisonDocument) -> Iterable[Markup]:
    """Bars of parts, on one scale for each kind, and the same as numbers."""
    several = len(kinds(document)) > 1
    for words, runs in kinds(document):
        yield from [tag("h3", words)] if several else []
        yield from stacks(runs)
        keys = visible(runs)
        rows = [(run.name, *(f"{100 * run.parts.get(key, 0.0):.1f}" for key in keys)) for run in runs]
        titles = ("run name", *(f"{part(key)[1]} n" for key in keys))
        first = next(run.name for run in runs)
        yield tag("details", tag("summary", f"in percent of the time of {first}"), table(titles, rows))


def stacks(runs: Sequence[ComparedRun]) -> Iterable[Markup]:
    """A legend and a bar of parts for each run."""
    keys, longest = visible(runs), max(sum(run.parts.values()) for run in runs)
    yield pictures.legend(part(key) for key in keys)
    yield pictures.bars(((_name(run), _bar(run, keys, longest)) for run in runs), named=True)


def _name(run: ComparedRun) -> str:
    return run.name if run.feasible else f"{run.name} (does not fit)"


def figures(document: ComparisonDocument, everything: bool) -> Markup:
    """A row for each figure and a column for each run, or the other way round; the best are strong and have a star."""
    known = {label(name, document): cells(name, row, document) for name, row in chosen(document, everything).items()}
    shown = fits(document) | known
    if len(document.names) > _MOST_COLUMNS:
        each = [(name, *(_shown(found[i]) for found in shown.values())) for i, name in enumerate(document.names)]
        return table(("run name", *(f"{words} n" for words in shown)), each)
    rows = [(words, *map(_shown, found)) for words, found in shown.items()]
    return table(("figure name", *(f"{name} n" for name in document.names)), rows, sortable=False)


def _body(document: ComparisonDocument) -> Iterable[Markup]:
    lines = list(header_lines(document))
    if len(document.names) <= _MOST_COLUMNS:
        lines.append(" · ".join(document.names))
    about = (tag("p", line, class_="soft") for line in lines)
    memory = expected(expected_memory(run.ground for run in document.runs))
    yield heading(title(document), *about, *ground(*grounds(document.runs)), *memory)
    yield tag("main", *_sections(document))
    yield tag("footer", tag("p", "Simulated, not measured.", class_="soft small"))


def _sections(document: ComparisonDocument) -> Iterable[Markup]:
    only = kinds(document)[0][0] if len(kinds(document)) == 1 else "Where the time goes"
    named: tuple[tuple[str, Iterable[Markup]], ...] = (
        ("Why they differ", differences(document)),
        ("Notes", notes(document.notes)),
        (only, times(document)),
        ("Figures", _figures(document)),
        (intervals.TITLE, _expected(document)),
        ("Assumptions", _assumptions(document.runs)),
        ("Provenance", _provenance(document.runs)),
    )
    yield from sections(named)


def _figures(document: ComparisonDocument) -> Iterable[Markup]:
    if not document.metrics:
        return
    yield figures(document, everything=False)
    if len(chosen(document)) < len(document.metrics):
        yield tag("details", tag("summary", f"all {len(document.metrics)} figures"), figures(document, True))


def _expected(document: ComparisonDocument) -> Iterable[Markup]:
    """Between which values the main figures of measured runs are."""
    if metrics := intervals.shown(document.runs):
        rows = [(run.name, *intervals.cells(run, metrics)) for run in document.runs]
        yield table(("run name", *(f"{short(name)} n" for name in metrics)), rows)
        said = [*intervals.bases(document.runs), *([ALIKE] if document.differences else [])]
        yield from (tag("p", line, class_="soft small") for line in said)


def _assumptions(runs: Sequence[ComparedRun]) -> Iterable[Markup]:
    """What all runs assume, then what only some of them do."""
    every = [list(run.assumptions) for run in runs]
    common = [line for line in every[0] if all(line in lines for lines in every)]
    if common:
        yield tag("h3", "All runs")
        yield from notes(common)
    some: dict[str, list[str]] = {}
    for run, lines in zip(runs, every, strict=True):
        for line in lines:
            if line not in common:
                some.setdefault(line, []).append(run.name)
    if some:
        yield tag("h3", "Only some runs")
        yield table(
            ("assumption source", "runs source"),
            [(line, "; ".join(names)) for line, names in some.items()],
            sortable=False,
        )


def _provenance(runs: Sequence[ComparedRun]) -> Iterable[Markup]:
    keys = ("version", "seed", "scenario")
    rows = [(run.name, *(str(run.provenance.get(key, "-")) for key in keys)) for run in runs]
    yield table(("run name", *(f"{key} path" for key in keys)), rows)
    text = "The report of a single run lists every figure of its hardware and software profiles with its source."
    yield tag("p", text, class_="soft small")


def _bar(run: ComparedRun, keys: Sequence[str], longest: float) -> Markup:
    scale = sum(run.parts_s.values()) / (sum(run.parts.values()) or 1.0)
    drawn = []
    for key in keys:
        (slot, words), share = part(key), run.parts.get(key, 0.0)
        hover = f"{words}: {units.format(share * scale, 'time')}, {wording.percent(share)}"
        drawn.append((share / (longest or 1.0), slot, hover))
    return pictures.stacked(drawn, f"{run.name}: what its time consists of", moot=not run.feasible)


def _shown(cell: Cell) -> str:
    return tag("strong", f"{cell.text} *") if cell.best else joined(cell.text)
