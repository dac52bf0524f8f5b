"""What pages on published systems say in words."""

from collections.abc import Mapping, Sequence

from simulator.report.text.wording import plural
from simulator.results.documents.papers import (
    DIRECTION,
    GIVEN,
    HOLDS,
    MISSED,
    NO_SCENARIO,
    REPRODUCED,
    PapersDocument,
    PublishedFigure,
)


def shown(value: float | None, unit: str) -> str:
    """A figure with its unit; ratios end in x, `-` where there is none."""
    if value is None:
        return "-"
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return f"{value:,.{digits}f}" + (f" {unit}" if unit else "x")


def published(of: PublishedFigure) -> str:
    """The authors' figure, with the word of a bound."""
    return {"least": "at least ", "most": "at most "}.get(of.bound or "", "") + shown(of.published, of.unit)


def error(of: PublishedFigure) -> str:
    """How far off ours is."""
    if of.error is not None:
        return f"{100 * of.error:+.0f} %"
    return "not found" if of.ours is None else "holds" if of.bound else "-"


def systems(document: PapersDocument) -> str:
    """How many systems come to what."""
    found = document.totals.systems
    return (
        f"Of {plural(sum(found.values()), 'system')}, {found.get(REPRODUCED, 0)} have a figure that is reproduced, "
        f"{found.get(HOLDS, 0)} more meet a bound, {found.get(DIRECTION, 0)} more have the right direction; "
        f"{found.get(MISSED, 0)} are missed, of {found.get(GIVEN, 0)} all figures are true by construction, "
        f"and of {found.get(NO_SCENARIO, 0)} there is no scenario."
    )


def figures(of: Sequence[PublishedFigure]) -> str:
    """How many figures come to what."""
    found = {name: sum(one.verdict == name for one in of) for name in (REPRODUCED, HOLDS, DIRECTION, MISSED, GIVEN)}
    return _figures(found)


def _figures(found: Mapping[str, int]) -> str:
    counted = sum(found.values()) - found.get(GIVEN, 0)
    text = (
        f"Of {plural(counted, 'figure')}, {found.get(REPRODUCED, 0)} are reproduced, "
        f"{found.get(HOLDS, 0)} are bounds that hold, {found.get(DIRECTION, 0)} have the right direction, "
        f"{found.get(MISSED, 0)} are missed."
    )
    given = found.get(GIVEN, 0)
    return f"{text} {given} more are true by construction and not counted." if given else text


def all_figures(document: PapersDocument) -> str:
    """The same of the whole document."""
    near = f" Off by at most 25 %: {document.totals.within_25_percent}."
    return _figures(document.totals.figures) + near


def reason(of: PublishedFigure) -> str:
    """Why a figure differs, and what it is where a suspected cause is changed."""
    checked = (f"with {what} {shown(value, of.unit)}" for what, value in of.checks.items())
    return "; ".join(filter(None, (of.reason, *checked)))
