"""The findings about an installation, as a page."""

from collections.abc import Mapping, Sequence
from typing import Any

from simulator.report.text.plain import clean

MARKS = {"fine": "ok", "absent": "--", "wrong": "!!"}
_COLOURS = {"fine": "\x1b[32m", "absent": "\x1b[2m", "wrong": "\x1b[31m"}


def page(findings: Sequence[Mapping[str, Any]], places: Mapping[str, str], colour: bool = False) -> str:
    """Groups of findings, each with whether it is fine (ok), absent (--) or wrong (!!); then where things lie."""
    widest = max(len(str(finding["name"])) for finding in findings)
    lines: list[str] = []
    group = ""
    for finding in findings:
        if finding["group"] != group:
            group = str(finding["group"])
            lines += ["", group] if lines else [group]
        mark = MARKS[finding["verdict"]]
        shown = f"{_COLOURS[finding['verdict']]}{mark}\x1b[0m" if colour else mark
        lines.append(f"  {shown}  {clean(str(finding['name'])):<{widest}}  {clean(str(finding['detail']))}")
    lines += ["", "where", *(f"      {name:<{widest}}  {clean(place)}" for name, place in places.items())]
    wrong = sum(finding["verdict"] == "wrong" for finding in findings)
    verdict = "all is well" if not wrong else f"{wrong} thing{'s are' if wrong > 1 else ' is'} wrong (!!)"
    return "\n".join([*lines, "", verdict]) + "\n"
