"""Fit the stacks of the rows of a file: those of training or those of serving, as its rows are."""

from simulator.calibration.asked import Asked
from simulator.calibration.stacks import own, serving, training
from simulator.errors import InputError, Problem
from simulator.interop.rows.jsonl import read_lines
from simulator.interop.rows.serving import kind_of
from simulator.interop.rows.suspicious import contradicted_lines


def calibrate(asked: Asked) -> None:
    """Fit the stacks of the rows of one kind, or the stack of logs of one's own with their scenarios; InputError where
    there are no rows, or of both kinds."""
    if asked.scenario:
        own.calibrate(asked)
        return
    if len(asked.files) != 1:
        raise InputError(
            Problem("logs need `--scenario FILE`, which says what was run", hint="or give one file of rows")
        )
    (path,) = asked.files
    lines = list(read_lines(path))
    kinds = {kind for line in lines if (kind := kind_of(line)) is not None}
    if len(kinds) != 1:
        words = "has rows that train and rows that serve" if kinds else "has no rows"
        raise InputError(Problem(words, file=str(path), hint="docs/reference/measurements.md has the keys of rows"))
    if kinds == {"training"}:
        training.calibrate(asked, lines)
        return
    for flag, given in (("--intervals", asked.intervals), ("--held-out", asked.held_out)):
        if given:
            raise InputError(Problem(f"`{flag}` has no meaning for rows that serve", hint="leave it out"))
    aside = contradicted_lines(lines)
    serving.calibrate(asked, [line for place, line in enumerate(lines) if place not in aside])
