"""Serving rows simulated and scored: every error is one of time, whichever metric the row publishes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from simulator.errors import SimulatorError
from simulator.interop.rows.jsonl import Line, Refused, id_of, parse_line, read_row
from simulator.interop.rows.serving import CLOSED_LOOP, MappedServing, ServingRow
from simulator.interop.rows.suspicious import MARK, contradicted_lines
from simulator.results import spread
from simulator.run.ground import Conditions
from simulator.run.measured.scores import Part, compared, run_mapped
from simulator.run.measured.serving import map_serving_row
from simulator.run.serve import again
from simulator.run.spread.near import Like, like
from simulator.run.spread.residuals import spread_of_row
from simulator.run.spread.saturation import Strain, strained, strains
from simulator.specs.scenario import ServingScenario

MEASURED = re.compile(r"(A100|H100|H200) SXM")
"""Devices whose kernels are measured."""
SPARSE = re.compile(r"deepseek-?[ -]?(v3|r1(?!.*distill| 14b))|mixtral|gpt-oss|-A\d+B", re.I)
"""Mixtures of experts."""


@dataclass(frozen=True, slots=True)
class ServingOutcome:
    """What became of one row."""

    id: str
    row: ServingRow | None = None
    """None where the line could not be read."""
    parts: tuple[Part, ...] = ()
    """What is scored; the times of an online row together."""
    stack: str = ""
    refused: str = ""
    assumed: tuple[str, ...] = ()
    like: Like | None = None
    """What its scenario is, for what is said of runs like it; None where nothing was simulated."""
    strains: Mapping[str, Strain] = field(default_factory=dict)
    """What its queue makes of an error of speed, by what spreads are about."""
    line: str = ""
    """`file:number` of the row; empty where it comes from no file."""
    memory_error: None = None
    """No row says how much memory it took."""

    @property
    def conditions(self) -> Conditions | None:
        """What its scenario stands on; None where nothing was simulated."""
        return self.like.conditions if self.like else None

    @property
    def in_scope(self) -> bool:
        """A dense model on A100, H100 or H200 SXM, of a kind that is simulated."""
        row = self.row
        if row is None or not MEASURED.search(row.accelerator) or SPARSE.search(row.model):
            return False
        return row.kind not in ("pd_disaggregated", "scheduler_speedup")

    @property
    def feasible(self) -> bool:
        """Whether model and requests fit into the memory."""
        return "fit into the memory" not in self.refused

    @property
    def error(self) -> float | None:
        """Of time. Of several figures: the mean of the sizes, with the sign of the sum."""
        if not self.parts:
            return None
        errors = [part.error for part in self.parts]
        if "tpot" in self.errors:
            return self.errors["tpot"]
        size = sum(map(abs, errors)) / len(errors)
        return size if sum(errors) >= 0 else -size

    @property
    def errors(self) -> dict[str, float]:
        """Of a closed loop: errors of time by figure, throughput following from the times (concurrency / request)."""
        if self.row is None or self.row.arrivals != CLOSED_LOOP:
            return {}
        parts = {part.metric.partition("_")[0]: part for part in self.parts if not part.rate}
        found = {name: part.error for name, part in parts.items()}
        if {"ttft", "tpot"} <= set(parts) and self.row.output_len:
            later = max(self.row.output_len * sum(self.row.length_range or (1.0, 1.0)) / 2 - 1, 0.0)
            times = [
                getattr(parts["ttft"], side) + later * getattr(parts["tpot"], side)
                for side in ("predicted", "measured")
            ]
            found["throughput"] = times[0] / times[1] - 1
        return found

    @property
    def interval(self) -> tuple[float, float] | None:
        """Between which values `measured` is expected; of the mean of several where its error is one."""
        scored = [part for part in self.parts if part.error == self.error]
        if not scored:
            all_ends = [ends for part in self.parts if (ends := self.interval_of(part))]
            low, high = (sum(ends[side] for ends in all_ends) / max(len(all_ends), 1) for side in (0, 1))
            return (low, high) if all_ends and len(all_ends) == len(self.parts) else None
        ends = self.interval_of(scored[0])
        if ends is None or self.predicted is None:
            return None
        scale = self.predicted / scored[0].predicted
        return ends[0] * scale, ends[1] * scale

    def interval_of(self, part: Part) -> tuple[float, float] | None:
        """Between which values a figure of the row is expected from rows of other sources."""
        if self.like is None or self.row is None:
            return None
        about = _about(self.row.kind, part.metric)
        known = spread_of_row(self.like, about, self.row.source)
        return None if known is None else strained(known, self.strains.get(about)).around(part.predicted, part.rate)

    @property
    def errors_about(self) -> dict[str, float]:
        """Errors of time by what spreads are about."""
        if self.row is None:
            return {}
        found = {_about(self.row.kind, part.metric): part.error for part in self.parts}
        return found | ({spread.REQUEST: self.errors["throughput"]} if "throughput" in self.errors else {})

    @property
    def metric(self) -> str | None:
        """Name of the figure, or of the figures."""
        return " and ".join(part.metric for part in self.parts) or None

    @property
    def measured(self) -> float | None:
        """The published figure in SI units; of several the mean."""
        return sum(part.measured for part in self.parts) / len(self.parts) if self.parts else None

    @property
    def predicted(self) -> float | None:
        """The simulated figure; of several the measured mean, as far off as the error says."""
        if len(self.parts) == 1:
            return self.parts[0].predicted
        return None if self.error is None or self.measured is None else self.measured * (1 + self.error)

    @property
    def measured_s(self) -> float | None:
        """The figure as a time: of a rate the seconds of a token."""
        return None if self.measured is None else 1 / self.measured if self.parts[0].rate else self.measured

    @property
    def predicted_s(self) -> float | None:
        """The same simulated."""
        return None if self.measured_s is None or self.error is None else self.measured_s * (1 + self.error)


def _about(kind: str, metric: str) -> str:
    """What a published figure of a kind of rows is about: a rate of answers is one of requests or of later tokens."""
    if metric.startswith("ttft") or kind in ("single_stream_prefill", "prefill_throughput", "first_token_latency"):
        return spread.TTFT
    if metric.startswith(("tpot", "itl", "tbt")) or kind in ("decode_throughput", "single_stream_decode"):
        return spread.TPOT
    return spread.REQUEST


# ---- simulation ----------------------------------------------------------------------------------------------------


def validate_serving_line(line: Line) -> ServingOutcome:
    """Read and simulate one line of a file of measurements."""
    try:
        return replace(validate_serving_row(read_row(ServingRow, parse_line(line))), line=line.place)
    except Refused as refused:
        return ServingOutcome(id_of(line), refused=str(refused), line=line.place)


def set_aside(lines: Sequence[Line]) -> dict[int, ServingOutcome]:
    """Outcomes of rows that other rows of the same lines contradict, by place."""
    return {
        place: ServingOutcome(id_of(lines[place]), refused=MARK + reason, line=lines[place].place)
        for place, reason in contradicted_lines(lines).items()
    }


def validate_serving_row(row: ServingRow) -> ServingOutcome:
    """Simulate one row."""
    try:
        return simulate_mapped(map_serving_row(row))
    except (Refused, SimulatorError, ArithmeticError, MemoryError) as error:
        return ServingOutcome(row.id, row, refused=" ".join(str(error).split()))


def simulate_mapped(mapped: MappedServing, scenario: ServingScenario | None = None) -> ServingOutcome:
    """Simulate a row, or a variant of its scenario; raises Refused where nothing can be compared."""
    run, known = run_mapped(mapped, scenario), scenario or mapped.scenario
    parts, source = compared(mapped, run), mapped.row.source
    return ServingOutcome(
        mapped.row.id,
        mapped.row,
        parts,
        mapped.stack,
        assumed=mapped.assumed,
        like=like(known),
        strains=strains(run, again, lambda own, about: spread_of_row(own, about, source)),
    )
