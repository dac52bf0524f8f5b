"""Reproduce what the authors of published systems claim, and write docs/papers.md.

    python -m benchmarks.papers [--only PAPER ...]

Runs the scenarios of scenarios/papers as workloads/measurements/papers.yaml asks, in some minutes. With `--only` the
page is not written, the tables of those papers are printed.
"""

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import mean
from typing import NamedTuple

from benchmarks.claims import Bench, Claim, Fits, Papers, changed, known_claims

PAGE = Path(__file__).resolve().parent.parent / "docs" / "papers.md"
HEAD = """# Published systems

What the authors of systems for serving and training claim, and what the simulator makes of the set-ups that they state.
The scenarios are in `scenarios/papers`; they say what the authors say, and everything else is the default of the
hardware profile and the software stack. The claims are data, `workloads/measurements/papers.yaml`; this page is written
from them by

```sh
python -m benchmarks.papers
```

The error is that of the figure, simulated over published, less 1. A claim that is a bound has an error only where it
is missed. Nothing is tuned for a row. Where a cause is suspected, it was changed to see what comes of it: "with ..." is
the figure of such a run.
"""


class Row(NamedTuple):
    """A claim, our figure, and the figures of its checks."""

    claim: Claim
    ours: float
    checked: tuple[float, ...] = ()


def row(claim: Claim, bench: Bench) -> Row:
    """Run what a claim asks for."""
    checked = tuple(bench.value(changed(claim.figure, check.changes)) for check in claim.checks)
    return Row(claim, bench.value(claim.figure), checked)


def shown(value: float, unit: str) -> str:
    """A figure with its unit; ratios end in x."""
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:,.{digits}f}" + (f" {unit}" if unit else "x")


def error(claim: Claim, ours: float) -> float | None:
    """Relative error of a figure; None where a bound holds."""
    found = ours / claim.published - 1
    if (claim.bound == "least" and found >= 0) or (claim.bound == "most" and found <= 0):
        return None
    return found


def reason(of: Row) -> str:
    """Why a figure differs, and what the changes come to that were made to see it."""
    found = zip(of.claim.checks, of.checked, strict=True)
    texts = [of.claim.reason, *(f"with {check.what} {shown(value, of.claim.unit)}" for check, value in found)]
    return "; ".join(text for text in texts if text)


def line(of: Row) -> str:
    """A row of a table."""
    claim, ours = of.claim, of.ours
    bound = {"least": "at least ", "most": "at most ", None: ""}[claim.bound]
    off = error(claim, ours)
    cells = (
        f"{claim.claim} ({claim.source})",
        bound + shown(claim.published, claim.unit),
        shown(ours, claim.unit),
        "holds" if off is None else f"{100 * off:+.0f} %",
        reason(of),
    )
    return "| " + " | ".join(cells) + " |"


def table(rows: Sequence[Row]) -> list[str]:
    """The claims of a paper."""
    return [
        "| claim | published | simulated | error | reason |",
        "| --- | --- | --- | --- | --- |",
        *map(line, rows),
        "",
    ]


def fits(found: Fits, bench: Bench) -> Iterator[str]:
    """Our iterations against latency models that authors fitted."""
    yield f"Iterations against {found.source}:"
    yield ""
    yield "| model | engine | tp | prefill, mean size | signed | decode, mean size | signed |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for fit in found.models:
        errors = bench.fitted(found, fit)
        cells = [f"{100 * size:.0f} % | {100 * mean(e):+.0f} %" for e in errors.values() if (size := mean(map(abs, e)))]
        name = bench.named(fit.of)
        yield f"| {name} | {fit.engine} | {fit.tp} | {' | '.join(cells)} |"
    yield ""
    prompts, decodes, contexts = (", ".join(map(str, each)) for each in (found.prompts, found.decodes, found.contexts))
    yield f"Prompts of {prompts} tokens; {decodes} sequences with {contexts} cached tokens each. Stack of the scenario."
    yield ""


def summary(rows: Sequence[Row]) -> str:
    """How many claims are met."""
    errors = [error(each.claim, each.ours) for each in rows]
    near = sum(found is None or abs(found) <= 0.1 for found in errors)
    fair = sum(found is None or abs(found) <= 0.25 for found in errors)
    return f"Of {len(rows)} figures, {near} are met within 10 % and {fair} within 25 %, bounds that hold among them."


def page(papers: Papers, bench: Bench, only: Iterable[str] = ()) -> Iterator[str]:
    """Everything below the head."""
    chosen = list(only) or list(papers.titles)
    rows = {paper: [row(claim, bench) for claim in papers.claims if claim.paper == paper] for paper in chosen}
    yield summary([each for found in rows.values() for each in found])
    yield ""
    for half, titles in (("Serving", papers.serving), ("Training", papers.training)):
        here = [paper for paper in chosen if paper in titles]
        if here:
            yield from (f"## {half}", "", summary([each for paper in here for each in rows[paper]]), "")
        for paper in here:
            yield from _entry(papers, bench, paper, rows[paper])


def _entry(papers: Papers, bench: Bench, paper: str, rows: Sequence[Row]) -> Iterator[str]:
    """What a page says of a paper."""
    yield from (f"### {papers.titles[paper]}", "", *table(rows))
    for found in papers.fits:
        if found.paper == paper:
            yield from fits(found, bench)
    absent = [each for each in papers.absent if each.paper == paper]
    if absent:
        yield from ("Not reproduced:", "", *(f"- {each.claim}: {each.why}" for each in absent), "")


def main() -> None:
    """Run all and write the page, or print some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    papers = known_claims()
    parser.add_argument("--only", nargs="+", choices=tuple(papers.titles), default=[], help="papers to print")
    only = parser.parse_args().only
    text = "\n".join(page(papers, Bench(papers.fits), only)).rstrip() + "\n"
    if only:
        print(text)
    else:
        PAGE.write_text(f"{HEAD}\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
