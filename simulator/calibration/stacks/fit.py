"""Fit the stacks of the rows of a file: those of training or those of serving, as its rows are."""

from simulator.calibration.asked import Asked
from simulator.calibration.stacks import serving, training
from simulator.errors import InputError, Problem
from simulator.interop.rows.jsonl import read_lines
from simulator.interop.rows.serving import kind_of


def calibrate(asked: Asked) -> None:
    """Fit the stacks of the rows of one kind; InputError where there are none, or of both kinds."""
    (path,) = asked.files
    lines = list(read_lines(path))
    kinds = {kind for line in lines if (kind := kind_of(line)) is not None}
    if len(kinds) != 1:
        words = "has rows that train and rows that serve" if kinds else "has no rows"
        raise InputError(Problem(words, file=str(path), hint="docs/reference/measurements.md has the keys of rows"))
    if kinds == {"training"}:
        return training.calibrate(asked, lines)
    for flag, given in (("--intervals", asked.intervals), ("--held-out", asked.held_out)):
        if given:
            raise InputError(Problem(f"`{flag}` has no meaning for rows that serve", hint="leave it out"))
    return serving.calibrate(asked, lines)
