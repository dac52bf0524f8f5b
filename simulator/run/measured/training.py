"""Training rows as jobs: what a row leaves open is chosen by what fits into the memory and by the clock.

A rate of FLOPs that a row publishes is turned into a step time with the formula that its authors counted by.
"""

from dataclasses import dataclass

from pydantic import ValidationError

from simulator.errors import InputError
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.training import Draft, Row, draft
from simulator.interop.rows.training_names import counts_half_square, counts_recomputation
from simulator.results.result import Result
from simulator.run.gather import gather
from simulator.run.measured.fit_layout import choose_layout
from simulator.run.measured.fit_memory import choose_chunks, choose_micro_batch, choose_modules, made_to_fit
from simulator.run.simulate import run
from simulator.specs.scenario import Scenario
from simulator.training import flops
from simulator.training.arranged import arranged_job
from simulator.training.job import Job


@dataclass(frozen=True, slots=True)
class Mapped:
    """A row as a scenario with nothing left open."""

    row: Row
    scenario: Scenario
    job: Job
    stack: str
    """Name of the stack's profile."""
    assumed: tuple[str, ...]
    """What the row leaves open and how it was filled in."""


def map_row(row: Row) -> Mapped:
    """The scenario of a row; raises Refused with the reason where it cannot be simulated."""
    drafted = draft(row)
    assumed = list(drafted.assumed)
    try:
        scenario = _settled(drafted, assumed)
        job = arranged_job(scenario)
    except (InputError, ValidationError) as error:
        raise Refused(" ".join(str(error).split())) from None
    return Mapped(drafted.row, scenario, job, drafted.stack, tuple(assumed))


def _settled(drafted: Draft, assumed: list[str]) -> Scenario:
    """The scenario with what the row leaves open, in the order in which one choice rests on another."""
    scenario, left = drafted.scenario, drafted.open
    if left.layout:
        scenario = choose_layout(scenario, left.gives_way, assumed)
    if left.micro_batch:
        scenario = choose_micro_batch(scenario, assumed)
    if left.least_chunks is not None:
        scenario = choose_chunks(scenario, left.least_chunks, left.gives_way, assumed)
    if left.modules:
        scenario = choose_modules(scenario, assumed)
    return made_to_fit(scenario, assumed) if left.gives_way else scenario


def simulated(mapped: Mapped, scenario: Scenario | None = None) -> Result:
    """A step of a row, or of a variant of its scenario; what shared links carried over time is not written down."""
    return gather(run(scenario or mapped.scenario, fold="tiers", recording=False))


def measured_step(row: Row, job: Job) -> float:
    """Seconds of the step that the row's primary metric stands for."""
    value = float(getattr(row, row.primary_metric))
    tokens = float(row.global_batch * row.seq_len)
    match row.primary_metric:
        case "step_s":
            return value
        case "tokens_per_s_per_device":
            return tokens / (value * row.devices)
        case "samples_per_s":
            return row.global_batch / value
        case "mfu":
            return _counted(row, job) / (value * (row.peak_flops_bf16 or 0.0) * row.devices)
    return _counted(row, job) / (value * row.devices)


def _counted(row: Row, job: Job) -> float:
    """FLOPs of a step as the row's authors count them."""
    if row.primary_metric != "mfu" and counts_recomputation(row.flops_convention):
        again = flops.layers_forward_flops(job) * job.global_batch
        return flops.model_flops(job) + again
    if counts_half_square(row.flops_convention, row.framework, job.model.experts is not None):
        return flops.causal_flops(job)
    return flops.model_flops(job)
