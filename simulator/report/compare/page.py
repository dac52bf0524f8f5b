"""The terminal page of a comparison: the figures, the best marked, and the differences in words.

Figures are rows and runs are columns as long as these fit; runs with long names are numbered; of many runs each is a
row.
"""

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.console import JustifyMethod, RenderableType
from rich.text import Text

from simulator.metrics import METRICS
from simulator.report.text import intervals, wording
from simulator.report.text.blocks import grid, notes
from simulator.report.text.column_titles import short
from simulator.report.text.grounds import expected_memory, grounds
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.comparison import ComparedMetric, ComparedRun, ComparisonDocument
from simulator.results.infeasibility import CLOSE

ALIKE = "Runs that are alike err alike: intervals that overlap do not say that a difference is not real."
"""What intervals of several runs do not say."""
_GAP = 2
_MARGIN = 2
_LONGEST_NAME = 24
_NARROWEST_HEAD = 9
_MOST_APART = 6  # settings that are named


class Cell(NamedTuple):
    """A figure of a run as it is printed."""

    text: str
    best: bool

    @property
    def marked(self) -> str:
        """With its star, or room for one."""
        return f"{self.text} *" if self.best else f"{self.text}  "


def page(
    document: ComparisonDocument,
    *,
    width: int = WIDTH,
    colour: bool = False,
    everything: bool = False,
    rest: str = "with --all",
) -> str:
    """The page of a comparison, as text that ends with a newline.

    Where `everything` is False the figures for which few people look are left out; `rest` says where they are.
    """
    return draw(_blocks(document, width, everything, rest), width=width, colour=colour)


def chosen(document: ComparisonDocument, everything: bool = False) -> dict[str, ComparedMetric]:
    """The figures to show by their names; all of them where none is a headline."""
    rows: dict[str, ComparedMetric] = dict(document.metrics)
    few = {name: row for name, row in rows.items() if row.headline}
    return rows if everything or not few else few


def _blocks(document: ComparisonDocument, width: int, everything: bool, rest: str) -> Iterable[RenderableType]:
    names = [clean(name) for name in document.names]
    yield Text(clean(f"{title(document)}; * marks the best"), "bold cyan")
    yield from (Text(clean(line), "dim") for line in header_lines(document))
    for sentence in grounds(document.runs):
        yield Text(clean(f"Ground: {sentence}"), "yellow" if wording.estimated(sentence) else "dim")
    if memory := expected_memory(run.ground for run in document.runs):
        yield Text(f"Expected: {memory}", "dim")
    yield Text("")
    rows = chosen(document, everything)
    figures = {label(name, document): cells(name, row, document) for name, row in rows.items()}
    titles = {label(name, document): short(name) for name in rows}
    yield from _table(names, fits(document) | figures, titles, width)
    if left := len(document.metrics) - len(rows):
        yield Text(f"{wording.plural(left, 'further figure')} {rest}", "dim")
    yield from _expected(document, names, fits(document) | figures, width)
    yield from notes(held_against(document), [d.sentence for d in document.differences], "dim")
    yield from notes("Notes", tuple(document.notes), "yellow")


def title(document: ComparisonDocument) -> str:
    """How many runs there are, and of what, where it is one scenario."""
    number = f"{wording.plural(len(document.names), 'run')} side by side"
    name = document.shared.get("scenario")
    return f"{name}: {number}" if name else number


def header_lines(document: ComparisonDocument) -> Iterable[str]:
    """What the runs share, what all were changed by, and in which settings they differ."""
    shared = [
        text.partition(" (")[0] if name in ("model", "stack") else text
        for name, text in document.shared.items()
        if name != "scenario"
    ]
    if shared:
        yield " · ".join(shared)
    if document.changes:
        yield f"all with {' '.join(document.changes)}"
    apart = list(document.differing.items())
    if apart:
        more = f" and {wording.plural(len(apart) - _MOST_APART, 'more setting')}" if len(apart) > _MOST_APART else ""
        said = [f"{key} {', '.join(values)}" for key, values in apart[:_MOST_APART]]
        yield f"differ in {'; '.join(said)}{more}"


def held_against(document: ComparisonDocument) -> str:
    """Heading of the differences."""
    first = list(dict.fromkeys(difference.against for difference in document.differences))
    what = first[0] if len(first) == 1 else "the first of each kind"
    return f"Held against {what} (points: hundredths of its time)"


def label(metric: str, document: ComparisonDocument) -> str:
    """What a figure is called; energy and money of serving runs are of the whole run."""
    serving = all(run.kind == "serving" for run in document.runs)
    return METRICS[metric].label.replace("of a step", "of the run") if serving else METRICS[metric].label


def fits(document: ComparisonDocument) -> dict[str, list[Cell]]:
    """Which runs can be carried out, where some cannot or are too close to call."""
    runs = document.runs
    if all(run.feasible and not run.memory_too_close for run in runs):
        return {}
    return {"feasible": [Cell(_fit(run), False) for run in runs]}


def _fit(run: ComparedRun) -> str:
    said = "yes" if run.feasible else "no"
    return f"{said}, {CLOSE}" if run.memory_too_close else said


def cells(metric: str, row: ComparedMetric, document: ComparisonDocument) -> list[Cell]:
    """A figure of every run in one unit; a dash where a run does not have it."""
    shown = wording.figures(metric, row.values)
    return [Cell(text, name in row.best) for name, text in zip(document.names, shown, strict=True)]


def _expected(
    document: ComparisonDocument, names: list[str], figures: Mapping[str, list[Cell]], width: int
) -> Iterable[RenderableType]:
    """Between which values the main figures of measured runs are; names that are too long are numbers, as above."""
    long = max(map(len, names)) > _LONGEST_NAME and not _over_columns(names, figures, width)
    captions = _numbers(names) if long else names
    yield from intervals.tables(document.runs, captions, width, [ALIKE] if document.differences else [])


def _numbers(names: Sequence[str]) -> list[str]:
    return [str(number) for number in range(1, len(names) + 1)]


def _over_columns(called: Sequence[str], figures: Mapping[str, list[Cell]], width: int) -> bool:
    """Whether a column for each run fits, under what it is called."""
    room = width - _MARGIN - max(map(len, figures), default=0) - _GAP
    widest = [max((len(found[i].marked) for found in figures.values()), default=0) for i in range(len(called))]
    return sum(max(w, len(one) + 2) + _GAP for w, one in zip(widest, called, strict=True)) <= room


def _table(
    names: list[str], figures: Mapping[str, list[Cell]], titles: Mapping[str, str], width: int
) -> Iterable[RenderableType]:
    """The figures in the form that fits: names over columns, numbers over columns, or a row for each run.

    Figures are called by their words; by their `titles` over columns.
    """
    numbers = _numbers(names)
    for called in (names, numbers):
        if _over_columns(called, figures, width):
            if called is numbers:
                yield from _numbered(names)
            yield _columns(called, figures)
            return
    briefly = {titles.get(words, words): found for words, found in figures.items()}
    if max(map(len, names)) > _LONGEST_NAME:
        yield from _numbered(names)
        yield from _rows(numbers, briefly, width)
    else:
        yield from _rows(names, briefly, width)


def _numbered(names: Sequence[str]) -> Iterable[RenderableType]:
    """What the numbers stand for."""
    table = grid("right")
    table.add_column(overflow="fold")
    for number, name in enumerate(names):
        table.add_row(Text(str(number + 1), "bold"), name)
    yield table
    yield Text("")


def _columns(titles: Sequence[str], figures: Mapping[str, list[Cell]]) -> RenderableType:
    """A row for each figure."""
    table = grid("left", *_right(titles))
    table.add_row("", *(Text(f"{caption}  ", "bold") for caption in titles))
    for words, found in figures.items():
        table.add_row(words, *map(_text, found))
    return table


def _rows(titles: Sequence[str], figures: Mapping[str, list[Cell]], width: int) -> Iterable[RenderableType]:
    """A row for each run, in as many tables as the figures need."""
    room = width - _MARGIN - max(map(len, titles)) - _GAP
    group: list[tuple[str, list[Cell], int]] = []
    for words, found in figures.items():
        longest = max(len(f"{word}  ") for word in words.split())
        size = max(_NARROWEST_HEAD, longest, *(len(cell.marked) for cell in found))
        if group and sum(w + _GAP for *_, w in group) + size + _GAP > room:
            yield _piece(titles, group)
            yield Text("")
            group = []
        group.append((words, found, size))
    if group:
        yield _piece(titles, group)


def _piece(titles: Sequence[str], group: Sequence[tuple[str, list[Cell], int]]) -> RenderableType:
    table = grid("left", *_right(group))
    labels = [wrap(words, size - 2) for words, _, size in group]
    deepest = max(map(len, labels))
    for line in range(deepest):  # the last line of every label stands on the figures
        pieces = (["", *words][max(line - deepest + len(words) + 1, 0)] for words in labels)
        table.add_row("", *(Text(f"{piece}  " if piece else "", "dim") for piece in pieces))
    for number, caption in enumerate(titles):
        table.add_row(Text(caption, "bold"), *(_text(found[number]) for _, found, _ in group))
    return table


def _right(columns: Sequence[object]) -> list[JustifyMethod]:
    """As many columns of figures."""
    return ["right"] * len(columns)


def _text(cell: Cell) -> Text:
    return Text(cell.marked, "bold green" if cell.best else "")
