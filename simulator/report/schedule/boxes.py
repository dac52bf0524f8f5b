"""What a drawing of a pipeline schedule shows: which devices, and each pass as a box with its chunk and its words."""

from dataclasses import dataclass

from simulator.report.text import palette
from simulator.results.documents.schedule import PassColumns

SLOTS = {
    "F": palette.BLUE,
    "B": palette.ORANGE,
    "I": palette.GREEN,
    "W": palette.PURPLE,
    "S": palette.SKY,
    "T": palette.VERMILION,
}
"""Colour of each kind of pass."""
WORDS = {
    "F": "forward",
    "B": "backward",
    "I": "input gradient",
    "W": "weight gradient",
    "S": "scores",
    "T": "score gradient",
}
"""What each kind of pass is."""
SHORT = ("W", "S", "T")
"""Kinds of passes that may be too short for words."""


@dataclass(frozen=True, slots=True)
class PassBox:
    """One pass on its device."""

    kind: str
    chunk: int
    """Which of the stages of its device it goes through, from 0."""
    microbatch: int
    start: float
    end: float
    part: int = 0
    """Which of the passes that run side by side in this time it is, from 0."""
    parts: int = 1
    """How many run side by side."""

    @property
    def share(self) -> tuple[float, float]:
        """Its time, or its equal part of the time of those side by side, as if they followed each other."""
        length = (self.end - self.start) / self.parts
        return self.start + self.part * length, self.start + (self.part + 1) * length


def rows_of(passes: PassColumns) -> dict[int, list[PassBox]]:
    """The passes of each device in their order; of those side by side start and end are the same."""
    rows: dict[int, list[PassBox]] = {device: [] for device in sorted(set(passes.device))}
    for group in passes.groups():
        for part, at in enumerate(group):
            what = passes.kind[at], passes.chunk[at], passes.microbatch[at], passes.start[at], passes.end[at]
            rows[passes.device[at]].append(PassBox(*what, part, len(group)))
    return rows


def kinds_of(passes: PassColumns) -> list[str]:
    """The kinds of passes that occur, in the order of `WORDS`."""
    found = set(passes.kind)
    return [kind for kind in WORDS if kind in found]
