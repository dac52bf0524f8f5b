"""What a drawing of a pipeline schedule shows: which devices, and each pass as a box with its chunk and its words."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from simulator.report.text import palette
from simulator.results.documents.schedule import PassColumns

SLOTS = {"F": palette.BLUE, "B": palette.ORANGE, "I": palette.GREEN, "W": palette.PURPLE}
"""Colour of each kind of pass."""
WORDS = {"F": "forward", "B": "backward", "I": "input gradient", "W": "weight gradient"}
"""What each kind of pass is."""


@dataclass(frozen=True, slots=True)
class PassBox:
    """One pass on its device."""

    kind: str
    chunk: int
    """Which of the stages of its device it goes through, from 0."""
    microbatch: int
    start: float
    end: float


def rows_of(passes: PassColumns) -> dict[int, list[PassBox]]:
    """The passes of each device in their order."""
    columns = (passes.device, passes.kind, passes.stage, passes.microbatch, passes.start, passes.end)
    return {device: _row(group) for device, group in groupby(zip(*columns, strict=True), itemgetter(0))}


def _row(group: Iterable[tuple[int, str, int, int, float, float]]) -> list[PassBox]:
    passes = list(group)
    chunks = {stage: chunk for chunk, stage in enumerate(sorted({stage for _, _, stage, _, _, _ in passes}))}
    return [PassBox(kind, chunks[stage], number, start, end) for _, kind, stage, number, start, end in passes]


def kinds_of(passes: PassColumns) -> list[str]:
    """The kinds of passes that occur, in the order of `WORDS`."""
    found = set(passes.kind)
    return [kind for kind in WORDS if kind in found]
