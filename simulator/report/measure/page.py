"""What was measured, and what would be, as pages for a terminal."""

from collections.abc import Iterable, Sequence
from statistics import median

from simulator import units
from simulator.report.text.plain import clean
from simulator.report.text.wording import plural
from simulator.results.documents.measured import MeasuredCase, MeasuredDocument

SINGLE = "block"
"""The kind whose cases are shown one by one."""
REASONS = 6
"""Reasons that are listed."""
LONGEST = 96


def page(document: MeasuredDocument) -> str:
    """By kind how many cases were timed and how far the prediction was off; the block beside the clock."""
    lines = [
        f"Measured on {clean(document.place)}",
        "",
        f"{'kind':<12}{'timed':>6}{'shortest':>12}{'longest':>12}  error",
    ]
    for kind, cases in _kinds(document.cases):
        times = [case.measured_s for case in cases if case.measured_s is not None]
        ends = [units.format(end, "time") for end in (min(times), max(times))] if times else ["-", "-"]
        lines.append(f"{kind:<12}{len(times):>6}{ends[0]:>12}{ends[1]:>12}  {_errors(cases)}")
    lines += _block([case for case in document.cases if case.kind == SINGLE])
    lines += _missing(document.cases)
    timed = sum(case.measured_s is not None for case in document.cases)
    lines += [
        "",
        f"{plural(timed, 'row')} in {clean(document.file)}: clustersim calibrate kernels {clean(document.file)}",
    ]
    return "\n".join(lines) + "\n"


def plan(document: MeasuredDocument) -> str:
    """What would be measured."""
    lines = [f"Would measure {plural(len(document.cases), 'case')} {clean(document.place)}", ""]
    for kind, cases in _kinds(document.cases):
        largest = units.format(max(case.bytes for case in cases), "bytes")
        lines.append(f"{kind:<12}{plural(len(cases), 'case'):>10}, operands of up to {largest}")
    return "\n".join(lines) + "\n"


def _kinds(cases: Iterable[MeasuredCase]) -> list[tuple[str, list[MeasuredCase]]]:
    found: dict[str, list[MeasuredCase]] = {}
    for case in cases:
        found.setdefault(case.kind, []).append(case)
    return list(found.items())


def _errors(cases: Sequence[MeasuredCase]) -> str:
    """Median and mean signed error of the prediction in per cent."""
    errors = [case.error for case in cases if case.error is not None]
    if not errors:
        return "no prediction"
    signed = sum(errors) / len(errors)
    return f"median {100 * median(map(abs, errors)):.1f} %, signed {100 * signed:+.1f} %"


def _block(cases: Sequence[MeasuredCase]) -> list[str]:
    """The block, line by line: clock, prediction, error."""
    lines = [""] if cases else []
    for case in cases:
        if case.measured_s is None:
            continue
        what = "one block, forward and backward" if "bwd" in case.name else "one block, forward"
        said = f"{what:<32} clock {units.format(case.measured_s, 'time')}"
        if case.predicted_s is not None and case.error is not None:
            said += f", predicted {units.format(case.predicted_s, 'time')} ({100 * case.error:+.1f} %)"
        lines.append(said)
    return lines


def _missing(cases: Sequence[MeasuredCase]) -> list[str]:
    """Why cases have no time, each reason once."""
    reasons: dict[str, int] = {}
    for case in cases:
        if case.measured_s is None:
            reasons[f"{case.kind}: {case.why}"] = reasons.get(f"{case.kind}: {case.why}", 0) + 1
    listed = [f"not measured: {clean(why)} ({plural(n, 'case')})"[:LONGEST] for why, n in reasons.items()]
    more = [f"and for {plural(len(listed) - REASONS, 'reason')} more"] if len(listed) > REASONS else []
    return ["", *listed[:REASONS], *more] if listed else []
