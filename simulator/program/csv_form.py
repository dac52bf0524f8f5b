"""Schedules as CSV, in the form that PyTorch's pipelining reads and writes: a line a rank, a cell an instruction.

Empty cells are bubbles that PyTorch writes for the eye; time needs none, so they are skipped and not written back.
"""

from collections.abc import Sequence
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.program.actions import Action, parse
from simulator.results.writing import write
from simulator.specs.text.yaml_text import file_text

MAX_PROBLEMS = 20
"""Most problems that are reported at once."""


def read_csv(path: str | Path, shown: str | None = None) -> list[list[Action]]:
    """The instructions of each rank; `shown` is the file's name in messages.

    Raises InputError with file, line and column of every cell that is no instruction (the first 20), or where the file
    cannot be read, is too large, is no text or holds nothing.
    """
    name = str(path) if shown is None else shown
    ranks, problems = [], []
    text = file_text(Path(path), name, "CSV file of one line a rank").replace("\r\n", "\n")
    for number, line in enumerate(text.rstrip().split("\n"), 1):
        actions, wrong = _parse_line(line, name, number)
        ranks.append(actions)
        problems += wrong
        if len(problems) >= MAX_PROBLEMS:
            break
    if problems:
        raise InputError(*problems[:MAX_PROBLEMS])
    if not any(ranks):
        raise InputError(Problem("holds no instruction", name, hint="write a line a rank, such as `0F0,0F1,0B0,0B1`"))
    return ranks


def write_csv(ranks: Sequence[Sequence[Action]], path: str | Path) -> None:
    """Write a schedule; the file appears whole or not at all. InputError where it cannot be written."""
    write(path, "".join(",".join(map(str, actions)) + "\n" for actions in ranks))


def _parse_line(line: str, name: str, number: int) -> tuple[list[Action], list[Problem]]:
    """The instructions of one line, and what is wrong with its cells."""
    actions, problems, column = [], [], 1
    for cell in line.split(","):
        if cell.strip():
            try:
                actions.append(parse(cell))
            except ValueError as error:
                start = column + len(cell) - len(cell.lstrip())
                problems.append(Problem(str(error), name, number, start))
                if len(problems) >= MAX_PROBLEMS:
                    break
        column += len(cell) + 1
    return actions, problems
