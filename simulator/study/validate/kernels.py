"""Kernels priced and compared with published times."""

from simulator.interop.rows.jsonl import Line
from simulator.interop.rows.kernels import KernelRow, map_kernel
from simulator.run.measured.kernels import predicted
from simulator.study.validate.timed import Timed, TimedOutcome, timed_line


def validate_kernel_line(line: Line) -> TimedOutcome:
    """Read and price one line of a file of measurements."""
    return timed_line(line, KernelRow, _price)


def _price(row: KernelRow) -> Timed:
    mapped = map_kernel(row)
    measured, ours, metric, profile = predicted(mapped)
    return Timed(profile, metric, measured, ours, mapped.assumed)
