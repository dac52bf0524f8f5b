"""Validation: published rows simulated, and how wrong the simulation is.

Every error is one of time: simulated over measured step time, less 1, whichever metric the row publishes. A rate of
FLOPs is turned into a step time with the formula that its authors counted by.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulator.errors import SimulatorError
from simulator.interop.rows.accelerators import card
from simulator.interop.rows.jsonl import Line, Refused, id_of, parse_line, read_row
from simulator.interop.rows.training import Row
from simulator.interop.rows.training_names import loss_in_parts, numbers
from simulator.results import spread
from simulator.run.ground import Conditions
from simulator.run.measured.training import Mapped, map_row, measured_step, simulated
from simulator.run.spread.near import Like, like
from simulator.run.spread.residuals import spread_of_row
from simulator.specs.scenario import Scenario

SIXTEEN = ("fp16", "bf16")
"""Formats in scope."""
CARDS = ("a100", "h100")
"""Accelerators in scope, by the start of their names."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one row."""

    id: str
    row: Row | None = None
    """None where the line could not be read."""
    measured_s: float | None = None
    """Step time that the row's metric stands for."""
    predicted_s: float | None = None
    refused: str = ""
    assumed: tuple[str, ...] = ()
    memory_error: float | None = None
    """Simulated over measured peak memory, less 1, where the row has it."""
    feasible: bool = True
    like: Like | None = None
    """What its scenario is, for what is said of runs like it; None where nothing was simulated."""
    line: str = ""
    """`file:number` of the row; empty where it comes from no file."""

    @property
    def conditions(self) -> Conditions | None:
        """What its scenario stands on; None where nothing was simulated."""
        return self.like.conditions if self.like else None

    @property
    def in_scope(self) -> bool:
        """Tier 1, dense, 16 bits, A100 or H100, no context parallelism, a schedule that exists."""
        row = self.row
        return (
            row is not None
            and row.tier == 1
            and _in(SIXTEEN, lambda: numbers(row.precision).precision)
            and _in(CARDS, lambda: (card(row.device, row.intra_node or "")[0] or "").partition("-")[0])
            and (row.experts or 0) <= 1
            and (row.cp or 1) == 1
            and not self.refused.startswith("schedule")
        )

    @property
    def metric(self) -> str | None:
        """Name of the published figure."""
        return self.row.primary_metric if self.row else None

    @property
    def measured(self) -> float | None:
        """The published figure, in SI units of the row's metric."""
        return getattr(self.row, self.row.primary_metric) if self.row else None

    @property
    def predicted(self) -> float | None:
        """The same metric simulated: the published figure scaled by the ratio of step times."""
        if self.measured is None or self.measured_s is None or self.predicted_s is None or self.row is None:
            return None
        ratio = self.predicted_s / self.measured_s
        return float(self.measured * ratio if self.row.primary_metric == "step_s" else self.measured / ratio)

    @property
    def error(self) -> float | None:
        """predicted / measured - 1 of the step time."""
        if self.measured_s is None or self.predicted_s is None:
            return None
        return self.predicted_s / self.measured_s - 1

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between which values the published figure is expected from rows of other sources."""
        if self.like is None or self.predicted is None or self.row is None:
            return None
        known = spread_of_row(self.like, spread.STEP, self.row.source)
        return None if known is None else known.around(self.predicted, self.row.primary_metric != "step_s")

    @property
    def errors_about(self) -> dict[str, float]:
        """Errors of time and memory by what spreads are about."""
        found = {spread.STEP: self.error, spread.MEMORY: self.memory_error}
        return {about: error for about, error in found.items() if error is not None}


def _in(scope: tuple[str, ...], read: Callable[[], str]) -> bool:
    """Whether what is read of a row is in scope; words that are not known are not."""
    try:
        return read() in scope
    except Refused:
        return False


def validate_row(row: Row) -> Outcome:
    """Simulate one row."""
    try:
        mapped = map_row(row)
        return simulate_mapped(mapped)
    except (Refused, SimulatorError, ArithmeticError, MemoryError) as error:
        return Outcome(row.id, row, refused=" ".join(str(error).split()))


def simulate_mapped(mapped: Mapped, scenario: Scenario | None = None) -> Outcome:
    """Simulate a row, or a variant of its scenario."""
    scenario = scenario or mapped.scenario
    result = simulated(mapped, scenario)
    measured = None if loss_in_parts(mapped.row.flags) else mapped.row.mem_bytes
    memory_error = result.metrics["peak_memory_bytes"] / measured - 1 if measured else None
    return Outcome(
        mapped.row.id,
        mapped.row,
        measured_step(mapped.row, mapped.job),
        result.metrics["step_time_s"],
        assumed=mapped.assumed,
        memory_error=memory_error,
        feasible=result.feasible,
        like=like(scenario),
    )


def validate_line(line: Line) -> Outcome:
    """Read and simulate one line of a file of measurements."""
    try:
        return replace(validate_row(read_row(Row, parse_line(line))), line=line.place)
    except Refused as refused:
        return Outcome(id_of(line), refused=str(refused), line=line.place)
