"""What became of a published row that states one time, or a rate that is one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from pydantic import BaseModel

from simulator.errors import SimulatorError
from simulator.interop.rows.exchanges import ExchangeRow
from simulator.interop.rows.jsonl import Line, Refused, id_of, parse_line, read_row
from simulator.interop.rows.network import NetworkRow
from simulator.run.spread.near import Like
from simulator.run.spread.timed import TIME, band, like_timed, spread_of_time


@dataclass(frozen=True, slots=True)
class TimedOutcome:
    """One row of collectives, of exchanges with experts or of kernels."""

    id: str
    row: Any = None
    """What was read, with source, device, devices and model; None where the line could not be."""
    library: str = ""
    """Name of the profile that priced it."""
    metric: str | None = None
    """What the row publishes."""
    measured_s: float | None = None
    """The published time, or that of the published bandwidth or rate."""
    predicted_s: float | None = None
    refused: str = ""
    assumed: tuple[str, ...] = ()
    line: str = ""
    """`file:number` of the row; empty where it comes from no file."""
    memory_error: None = None
    feasible: bool = True
    conditions: None = None
    like: Like | None = None
    """What it is, for what is said of rows like it; None where nothing was priced."""

    @property
    def in_scope(self) -> bool:
        """All rows that can be read are."""
        return self.row is not None

    @property
    def measured(self) -> float | None:
        """`measured_s`."""
        return self.measured_s

    @property
    def predicted(self) -> float | None:
        """`predicted_s`."""
        return self.predicted_s

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between which seconds the published time is expected from rows of other sources."""
        if self.like is None or self.predicted_s is None:
            return None
        known = spread_of_time(self.like, self.row.source)
        return None if known is None else known.around(self.predicted_s, rate=False)

    @property
    def errors_about(self) -> dict[str, float]:
        """The error by what spreads are about."""
        return {} if self.error is None else {TIME: self.error}

    @property
    def error(self) -> float | None:
        """predicted / measured - 1 of the time."""
        if self.measured_s is None or self.predicted_s is None:
            return None
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class Timed:
    """A row priced."""

    library: str
    metric: str
    measured_s: float
    predicted_s: float
    assumed: tuple[str, ...]


def timed_row(row: Any, price: Callable[[Any], Timed]) -> TimedOutcome:
    """Price one row; what cannot be priced is refused with the reason."""
    try:
        found = price(row)
        if not 0 < found.measured_s < inf:
            raise Refused(f"`{found.metric}` says {found.measured_s:g} s")
        return TimedOutcome(
            row.id,
            row,
            found.library,
            found.metric,
            found.measured_s,
            found.predicted_s,
            assumed=found.assumed,
            like=_like(row, found.library),
        )
    except (Refused, SimulatorError, ArithmeticError, MemoryError) as error:
        return TimedOutcome(row.id, row, refused=" ".join(str(error).split()))


def _like(row: Any, library: str) -> Like:
    """What a row of a collective, an exchange or a kernel is."""
    if isinstance(row, NetworkRow):
        ranks = row.num_ranks or 1
        size = band(row.size_bytes)
        return like_timed("network", row.device, library, row.op, size, ranks, row.num_nodes or 1)
    if isinstance(row, ExchangeRow):
        form = row.dtype or "not stated"
        return like_timed("exchange", row.device, library, row.op, form, row.num_ranks, row.num_nodes or 1)
    return like_timed("kernel", row.device, library, row.op, row.dtype or "not stated", 1, None)


def timed_line(line: Line, form: type[BaseModel], price: Callable[[Any], Timed]) -> TimedOutcome:
    """Read and price one line of a file of measurements."""
    try:
        return replace(timed_row(read_row(form, parse_line(line)), price), line=line.place)
    except Refused as refused:
        return TimedOutcome(id_of(line), refused=str(refused), line=line.place)
