"""Published systems as docs/papers.md."""

from collections.abc import Iterator, Sequence
from statistics import mean

from simulator.report.papers import phrases
from simulator.results.documents.papers import (
    OF_SYSTEMS,
    FittedTable,
    PaperEntry,
    PapersDocument,
    PublishedFigure,
    SystemEntry,
)

HEAD = """# Published systems

What the authors of systems for serving and training claim, and what the simulator makes of the set-ups that they state.
The scenarios are in `scenarios/papers`; they say what the authors say, and everything else is the default of the
hardware profile and the software stack. The claims are data, `workloads/measurements/papers.yaml`, the systems
`workloads/measurements/systems.yaml`; this page is written from them by

```sh
clustersim papers --markdown docs/papers.md
```

The error is that of the figure, simulated over published, less 1. A figure is *reproduced* within 10 % or within the
spread that its source gives. A bound ("over 3", "up to 2") that is met from further away *holds*; a ratio on the right
side of 1 has the right *direction*, and no more than that where its row says what was assumed for it. What would come
out whatever the simulator does is marked and not counted. A system counts by its best figure, a source once. Nothing is
tuned for a row. Where a cause is suspected, it was changed to see what comes of it: "with ..." is the figure of such a
run.
"""


def page(document: PapersDocument) -> str:
    """The page."""
    return "\n".join([HEAD, *_body(document)]).rstrip() + "\n"


def _body(document: PapersDocument) -> Iterator[str]:
    yield from (phrases.systems(document), "", phrases.all_figures(document), "")
    yield from ("## Systems by mechanism", "", *_mechanisms(document), *_systems(document))
    for half in ("serving", "training"):
        papers = [one for one in document.papers if one.half == half]
        if papers:
            counted = phrases.figures([figure for one in papers for figure in one.figures])
            yield from (f"## {half.capitalize()}", "", counted, "")
        for one in papers:
            yield from _paper(one)


def _mechanisms(document: PapersDocument) -> Iterator[str]:
    yield f"| mechanism | {' | '.join(OF_SYSTEMS)} |"
    yield f"| --- |{' --- |' * len(OF_SYSTEMS)}"
    for name, found in sorted(document.totals.by_mechanism.items()):
        yield f"| {name} | {' | '.join(str(found.get(head, '')) for head in OF_SYSTEMS)} |"
    yield ""


def _systems(document: PapersDocument) -> Iterator[str]:
    yield "| system | mechanism | verdict | figures under, or why there is none |"
    yield "| --- | --- | --- | --- |"
    for one in sorted(document.systems, key=lambda one: (one.mechanism, one.name)):
        yield f"| {one.title} | {one.mechanism} | {verdict(one)} | {', '.join(one.papers) or one.why} |"
    yield ""


def verdict(one: SystemEntry) -> str:
    """A system's verdict, and where it is counted."""
    return f"{one.verdict} (counted under {one.same_as})" if one.same_as else one.verdict


def _paper(entry: PaperEntry) -> Iterator[str]:
    yield from (f"### {entry.title}", "")
    yield "| claim | published | simulated | error | verdict | reason |"
    yield "| --- | --- | --- | --- | --- | --- |"
    yield from map(line, entry.figures)
    yield ""
    for found in entry.fits:
        yield from _fits(found)
    if entry.left_out:
        yield from ("Not reproduced:", "", *(f"- {one.claim}: {one.why}" for one in entry.left_out), "")


def line(of: PublishedFigure) -> str:
    """A row of a table."""
    claim = f"{of.claim} ({of.source})"
    cells = (
        claim,
        phrases.published(of),
        phrases.shown(of.ours, of.unit),
        phrases.error(of),
        of.verdict,
        phrases.reason(of),
    )
    return "| " + " | ".join(cells) + " |"


def _fits(found: FittedTable) -> Iterator[str]:
    """Our iterations against latency models that authors fitted."""
    yield from (f"Iterations against {found.source}:", "")
    yield "| model | engine | tp | prefill, mean size | signed | decode, mean size | signed |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for fit in found.models:
        cells = [f"{100 * mean(map(abs, e)):.0f} % | {100 * mean(e):+.0f} %" for e in fit.errors.values()]
        yield f"| {fit.model} | {fit.engine} | {fit.tp} | {' | '.join(cells)} |"
    yield ""
    yield f"Prompts of {_listed(found.prompts)} tokens; {_listed(found.decodes)} sequences with "
    yield f"{_listed(found.contexts)} cached tokens each. Stack of the scenario."
    yield ""


def _listed(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))
