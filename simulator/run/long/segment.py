"""Equal steps with checkpoints between them, in closed form: what is done after so much time, and when a step ends."""

from typing import NamedTuple


class Done(NamedTuple):
    """What a segment has come to after some time."""

    steps: int
    """Whole steps."""
    into: int
    """Steps since the last checkpoint began, those before the segment among them; `every` where one begins now."""
    saves: int
    """Checkpoints for which steps no longer wait."""
    stall: int
    """Ticks in which steps waited for checkpoints."""
    partial: int
    """Ticks of a step that has begun."""


class Segment(NamedTuple):
    """Steps of one length, a checkpoint after every so many of them; all times are ticks."""

    start: int
    """When it begins."""
    step: int
    """Of a step."""
    into: int
    """Steps since the last checkpoint when it begins."""
    every: int
    """Steps between checkpoints; 0 where there are none."""
    stall: int
    """For which steps wait at each checkpoint."""

    @property
    def lead(self) -> int:
        """Ticks of steps before the first checkpoint."""
        return (self.every - self.into) * self.step

    @property
    def period(self) -> int:
        """Ticks from one checkpoint to the next."""
        return self.every * self.step + self.stall

    def after(self, elapsed: int) -> Done:
        """What is done when so much time has passed."""
        if not self.every or elapsed < self.lead:
            steps, partial = divmod(elapsed, self.step)
            return Done(steps, self.into + steps, 0, 0, partial)
        begun, rest = divmod(elapsed - self.lead, self.period)
        before = self.every - self.into + begun * self.every
        if rest < self.stall:
            return Done(before, self.every, begun, begun * self.stall + rest, 0)
        steps, partial = divmod(rest - self.stall, self.step)
        return Done(before + steps, steps, begun + 1, (begun + 1) * self.stall, partial)

    def until(self, steps: int) -> int:
        """Ticks until so many steps, one at least, are done; a checkpoint after the last of them is not waited for."""
        waits = (self.into + steps - 1) // self.every if self.every else 0
        return steps * self.step + waits * self.stall

    def boundary(self, elapsed: int) -> int:
        """Ticks to the end of the step, or of the checkpoint, that is under way after so much time."""
        done = self.after(elapsed)
        if self.every and done.into == self.every:
            return self.until_saved(done.saves + 1)
        return max(self.until(done.steps + 1), elapsed) if done.partial else elapsed

    def until_saved(self, save: int) -> int:
        """Ticks until steps no longer wait for a checkpoint, counted from 1."""
        return self.lead + self.stall + (save - 1) * self.period

    def saved(self, save: int) -> int:
        """Steps of the segment that a checkpoint holds, counted from 1."""
        return self.every - self.into + (save - 1) * self.every
