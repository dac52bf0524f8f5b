"""Schedules from CSV files."""

from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.program.csv_form import read_csv
from simulator.program.schedule import Schedule
from simulator.program.validate import validate


def read_schedule(path: str | Path, ranks: int, stages: int, microbatches: int) -> Schedule:
    """A schedule from a CSV file (see `program.csv_form`), checked against the sizes of the run.

    Stages may live on any rank; `Schedule.rank_of_stage` tells which. InputError where the file or the schedule is no
    good, DeadlockError where it waits for itself.
    """
    actions = read_csv(path)
    schedule = validate(actions, str(path))
    found = {"ranks (lines)": schedule.ranks, "stages": schedule.depth, "microbatches": schedule.microbatches}
    sizes = zip(found.items(), (ranks, stages, microbatches), strict=True)
    wrong = [f"{there} {what}, not {wanted}" for (what, there), wanted in sizes if there != wanted]
    if wrong:
        hint = "ranks are `pp`, stages `pp` x `vpp`, microbatches `global_batch` / (`micro_batch` x `dp`)"
        raise InputError(Problem(f"the schedule has {', '.join(wrong)}", str(path), hint=hint))
    return schedule
