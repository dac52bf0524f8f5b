"""Dispatch and combine of mixtures of experts priced and compared with published times."""

from dataclasses import dataclass, replace

from simulator.errors import SimulatorError
from simulator.interop.rows.exchanges import ExchangeRow, map_exchange
from simulator.interop.rows.jsonl import Line, Refused, id_of, parse_line, read_row
from simulator.run.measured.exchanges import predicted
from simulator.specs.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec


@dataclass(frozen=True, slots=True)
class ExchangeOutcome:
    """What became of one row."""

    id: str
    row: ExchangeRow | None = None
    """None where the line could not be read."""
    library: str = ""
    """Name of the profile."""
    metric: str | None = None
    measured_s: float | None = None
    predicted_s: float | None = None
    refused: str = ""
    assumed: tuple[str, ...] = ()
    line: str = ""
    """`file:number` of the row; empty where it comes from no file."""
    memory_error: None = None
    feasible: bool = True
    conditions: None = None

    @property
    def in_scope(self) -> bool:
        """All rows are."""
        return self.row is not None

    @property
    def measured(self) -> float | None:
        """The published time, or that of the published bandwidth."""
        return self.measured_s

    @property
    def predicted(self) -> float | None:
        """The simulated time."""
        return self.predicted_s

    @property
    def error(self) -> float | None:
        """predicted / measured - 1 of the time."""
        if self.measured_s is None or self.predicted_s is None:
            return None
        return self.predicted_s / self.measured_s - 1


def validate_exchange_line(line: Line) -> ExchangeOutcome:
    """Read and price one line of a file of measurements."""
    try:
        return replace(validate_exchange_row(read_row(ExchangeRow, parse_line(line))), line=line.place)
    except Refused as refused:
        return ExchangeOutcome(id_of(line), refused=str(refused), line=line.place)


def validate_exchange_row(row: ExchangeRow) -> ExchangeOutcome:
    """Price one row."""
    try:
        mapped = map_exchange(row)
        return ExchangeOutcome(
            row.id,
            row,
            mapped.library,
            mapped.metric,
            mapped.measured_s,
            predicted(mapped, load_spec(CollectiveProfile, mapped.library)),
            assumed=mapped.assumed,
        )
    except (Refused, SimulatorError, ArithmeticError, MemoryError) as error:
        return ExchangeOutcome(row.id, row, refused=" ".join(str(error).split()))
