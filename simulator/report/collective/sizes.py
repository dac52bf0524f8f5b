"""A collective over sizes as a table for a terminal, in nccl-tests' columns, with bars of the bus bandwidth."""

from collections.abc import Sequence

import numpy as np

from simulator import units
from simulator.report.text.plain import clean
from simulator.report.text.wording import plural
from simulator.results.documents.collective import CollectiveCurve, CollectiveSweepDocument, SizedCollective

_BAR = 16
_LEAST_BAR = 6
MEGABYTE = 1 << 20
_MOST_REFUSED = 10
"""Lines of a log that are shown as refused."""


def page(document: CollectiveSweepDocument, width: int = 100) -> str:
    """The table of the library's choice, then the fastest of the other algorithms at each size."""
    own, *others = document.curves
    across = f" on {plural(document.nodes, 'node')} of {clean(document.cluster)}"
    sides = "" if document.groups == 1 else f"{document.groups} groups of "
    lines = [
        f"# {document.operation} by {sides}{plural(document.ranks, 'rank')}{across}",
        f"# {clean(document.library)}; elements are {clean(document.dtype)}",
    ]
    lines += _table(own, document, width)
    if document.log:
        lines += _errors(own.sizes, document.log)
        lines += _refused(document.refused)
    if others:
        lines += ["", *_compared(document.curves)]
    return "\n".join(lines) + "\n"


def _table(curve: CollectiveCurve, document: CollectiveSweepDocument, width: int) -> list[str]:
    measured = bool(document.log)
    titles = f"#{'size':>12} {'count':>12} {'time':>10} {'algbw':>8} {'busbw':>8}"
    units_of = f"#{'(B)':>12} {'(elements)':>12} {'(us)':>10} {'(GB/s)':>8} {'(GB/s)':>8}"
    if measured:
        titles, units_of = titles + f" {'measured':>10} {'error':>7}", units_of + f" {'(us)':>10} {'(%)':>7}"
    names = [clean(f"{one.algorithm}/{one.protocol}") for one in curve.sizes]
    named = max(map(len, ["algorithm", *names]))
    titles, units_of = f"{titles}  {'algorithm':<{named}}  bound by", units_of + " " * (named + 12)
    most = max(one.busbw_bytes_per_s for one in curve.sizes)
    room = min(_BAR, width - len(titles) - 3)
    lines = [titles.rstrip(), units_of.rstrip()]
    for one, name in zip(curve.sizes, names, strict=True):
        text = (
            f"{one.size_bytes:>13.0f} {one.count:>12} {one.time_s * 1e6:>10.2f}"
            f" {one.algbw_bytes_per_s / 1e9:>8.2f} {one.busbw_bytes_per_s / 1e9:>8.2f}"
        )
        if measured:
            known = one.measured_s == one.measured_s
            text += f" {one.measured_s * 1e6:>10.2f} {one.error * 100:>+7.1f}" if known else " " * 19
        text += f"  {name:<{named}}  {one.bound:<12}"
        if room >= _LEAST_BAR:
            text += " " + "█" * round(room * one.busbw_bytes_per_s / most)
        lines.append(text.rstrip())
    return lines


def _errors(sizes: Sequence[SizedCollective], log: str) -> list[str]:
    """Errors below and from 1 MiB against a log."""
    lines = [f"# against {clean(log)}: simulated over measured time, less 1"]
    for name, chosen in (
        ("below 1 MiB", [one.error for one in sizes if one.size_bytes < MEGABYTE and one.error == one.error]),
        ("from 1 MiB", [one.error for one in sizes if one.size_bytes >= MEGABYTE and one.error == one.error]),
    ):
        if chosen:
            errors = np.array(chosen)
            lines.append(
                f"#   {name}: median {np.median(abs(errors)):.1%}, mean {abs(errors).mean():.1%}, "
                f"signed {errors.mean():+.1%} of {plural(len(chosen), 'size')}"
            )
    return lines


def _refused(lines: Sequence[str]) -> list[str]:
    """Lines of a log that are no rows, the first of them in words."""
    if not lines:
        return []
    more = len(lines) - _MOST_REFUSED
    rest = [f"#   and {more:,} more"] if more > 0 else []
    head = f"# {plural(len(lines), 'line')} of the log refused:"
    return [head, *(f"#   {clean(one)}" for one in lines[:_MOST_REFUSED]), *rest]


def _compared(curves: Sequence[CollectiveCurve]) -> list[str]:
    """Bus bandwidth in GB/s of each algorithm at some sizes, the fastest of each marked."""
    sizes = curves[0].sizes
    shown = [*range(0, len(sizes), -(-len(sizes) // 8))]
    names = [clean(curve.name) for curve in curves]
    room = max(map(len, names))
    heads = " ".join(f"{_short(sizes[i].size_bytes):>9}" for i in shown)
    lines = ["# bus bandwidth in GB/s; * the fastest", f"#{'':<{room}} {heads}"]
    best = {i: max(curve.sizes[i].busbw_bytes_per_s for curve in curves[1:]) for i in shown}
    for name, curve in zip(names, curves, strict=True):
        cells = []
        for i in shown:
            rate = curve.sizes[i].busbw_bytes_per_s
            cells.append(f"{rate / 1e9:>8.2f}{'*' if rate == best[i] and curve is not curves[0] else ' '}")
        lines.append(f" {name:<{room}} {' '.join(cells)}".rstrip())
    return lines


def _short(size: float) -> str:
    """A size in binary units where that is whole."""
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >= 1 << power and size % (1 << power) == 0:
            return f"{size / (1 << power):g} {unit}"
    return units.format(size, "bytes")
