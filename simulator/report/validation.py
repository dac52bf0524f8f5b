"""Validation as a page for a terminal; reads the document that `study.accuracy.document` makes."""

from collections.abc import Sequence
from typing import Any

from simulator.report.plain import clean


def page(document: dict[str, Any], by: Sequence[str], worst: int) -> str:
    """The figures as text: overall, by each key, refusals, worst rows."""
    figures = document["summary"]
    lines = [counted(figures), ""]
    lines += _table(f"error of {figures.get('what', 'the step time')}", _overall(figures))
    for key in by:
        lines += _table(f"by {key}", figures[f"by_{key}"])
    ranks = {name: value for name, value in figures["layout_rank_correlation"].items() if value is not None}
    if ranks:
        lines += [
            "layout rank correlation",
            *(f"  {clean(name):<36} {value:6.2f}" for name, value in ranks.items()),
            "",
        ]
    if figures["memory"]["rows"]:
        lines += [*_table("error of the peak memory", {"rows with memory": figures["memory"]})]
        lines += [f"  called out of memory although it ran: {figures['called_out_of_memory']}", ""]
    if figures["refused"]:
        lines += [
            "refused",
            *(f"  {count:5d}  {clean(reason)[:110]}" for reason, count in list(figures["refused"].items())[:15]),
            "",
        ]
    return "\n".join([*lines, *_worst(document["rows"], worst)]) + "\n"


def counted(figures: dict[str, Any]) -> str:
    """How many rows were simulated, and whether they are all that there are."""
    said = f"{figures['simulated']:,} of {figures['rows']:,} rows simulated ({100 * figures['coverage']:.1f} %)"
    whole = figures.get("sampled_from")
    return f"{said}; they are a sample of {figures['rows']:,} of {whole:,} rows" if whole else said


def _overall(figures: dict[str, Any]) -> dict[str, dict[str, float]]:
    return {
        "all": figures["error"],
        "complete rows": figures["complete"],
        "rows with assumptions": figures["with_assumptions"],
    }


def _table(title: str, groups: dict[str, dict[str, float]]) -> list[str]:
    head = f"{title:<40} rows    mean  median     P90  signed"
    rows = [
        f"  {clean(name):<38} {int(s['rows']):4d} "
        + " ".join(f"{100 * s[key]:6.1f}%" for key in ("mean", "median", "p90"))
        + f" {100 * s['signed']:+6.1f}%"
        for name, s in groups.items()
        if s["rows"]
    ]
    return [head, *rows, ""]


def _worst(rows: Sequence[dict[str, Any]], count: int) -> list[str]:
    done = sorted((row for row in rows if row["error"] is not None), key=lambda row: -abs(row["error"]))[:count]
    if not done:
        return []
    listed = [f"  {clean(r['id']):<44} {100 * r['error']:+7.1f}%  {clean('; '.join(r['assumed']))[:60]}" for r in done]
    return ["worst rows", *listed, ""]
