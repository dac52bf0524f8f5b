"""Other tools on published training steps, beside ours: the bar that a simulator must be below to earn its keep.

Figures of the other tools are as this project's maintainers measured them, each tool untuned at its own efficiencies:
errors of the step time of 543 dense 16-bit rows of tier 1 on A100 and H100 that all of them can express. Which rows
these are is not kept, so ours stand on the rows in scope, of the same kind, in `validation.tables`.
"""

from typing import NamedTuple


class Tool(NamedTuple):
    """Errors of step times, in per cent."""

    name: str
    mean: float
    median: float
    p90: float
    signed: float


ROWS = 543
TOOLS = (
    Tool(
        "a textbook line fitted on the rows: one efficiency a device, FLOPs, recomputation, bubble", 14.9, 12.5, 30, 1
    ),
    Tool("SimuMax", 18.6, 14.1, 39, 4),
    Tool("one constant MFU a device", 22.0, 13.4, 58, 8),
    Tool("llm-analysis (efficiencies 0.5 and 0.9)", 45.2, 20.0, 108, 33),
    Tool("Calculon (its own check, 3.65 % on 8 points, reproduces)", 45.3, 21.0, 89, 28),
)


def lines(ours: str) -> list[str]:
    """The table as text of a page; `ours` is the row of the table of errors (`validation.line`) of rows in scope."""
    _, rows, *figures = (cell.strip() for cell in ours.strip().strip("|").split("|"))
    mean, middle, p90, signed, left_out = figures
    return [
        "Beside other tools, untuned, as measured by this project's maintainers on",
        f"{ROWS} dense 16-bit rows of tier 1 on A100 and H100 that all of them can express (the list of these rows is",
        "not kept: ours are the rows in scope, with their source in the fit and left out):",
        "",
        "| | rows | mean | median | P90 | signed |",
        "| --- | --- | --- | --- | --- | --- |",
        f"| ours | {rows} | {mean} | {middle} | {p90} | {signed} |",
        *([f"| ours, source left out | {rows} | {left_out} | | | |"] if left_out else []),
        *(
            f"| {one.name} | {ROWS} | {one.mean:.1f} % | {one.median:.1f} % | {one.p90:.0f} % | {one.signed:+.0f} % |"
            for one in TOOLS
        ),
        "",
    ]
