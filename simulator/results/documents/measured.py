"""What `clustersim measure` timed on one device, beside what the simulator makes of it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MeasuredCase:
    """One case."""

    kind: str
    name: str
    bytes: float
    """Of its operands and results."""
    measured_s: float | None = None
    """None where it was not measured."""
    predicted_s: float | None = None
    """None where nothing of ours stands for it."""
    why: str = ""
    """Why there is no time, or no prediction."""

    @property
    def error(self) -> float | None:
        """predicted / measured - 1."""
        if self.measured_s is None or self.predicted_s is None:
            return None
        return self.predicted_s / self.measured_s - 1


@dataclass(frozen=True, slots=True)
class MeasuredDocument:
    """All cases, and on what."""

    place: str
    """Device, software and date in a line."""
    cases: tuple[MeasuredCase, ...]
    file: str = ""
    """Where they were written; empty where nothing was measured."""
