"""Training rows as jobs: what a row leaves open is chosen by what fits into the memory and by the clock."""

from dataclasses import dataclass

from pydantic import ValidationError

from simulator.errors import InputError
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.training import Draft, Row, draft
from simulator.run.measured.fit_memory import choose_chunks, choose_micro_batch, made_to_fit
from simulator.specs.scenario import Scenario
from simulator.training.job import Job, build_job


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
        job = build_job(scenario)
    except (InputError, ValidationError) as error:
        raise Refused(" ".join(str(error).split())) from None
    return Mapped(row, scenario, job, drafted.stack, tuple(assumed))


def _settled(drafted: Draft, assumed: list[str]) -> Scenario:
    """The scenario with what the row leaves open, in the order in which one choice rests on another."""
    scenario, left = drafted.scenario, drafted.open
    if left.micro_batch:
        scenario = choose_micro_batch(scenario, assumed)
    if left.least_chunks is not None:
        scenario = choose_chunks(scenario, left.least_chunks, left.gives_way, assumed)
    return made_to_fit(scenario, assumed) if left.gives_way else scenario
