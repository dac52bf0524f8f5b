"""Layers of each stage by what prompts do in them: pass them, or leave them after their keys and values (SwiftKV).

With `prompt_layers` of a model (arXiv:2410.03960) the stream of a prompt's tokens ends after so many layers; the later
ones project their keys and values from it. Rows that give a token, the last one of each prompt among them, pass all.
Groups of later layers may share one cache (AcrossKV). Left out: what the last row of a prompt reads in later layers.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from simulator.specs.model import LayerKind, Model


class Depth(NamedTuple):
    """Layers of a stage."""

    full: int
    """That all rows pass."""
    skipped: int
    """That only rows pass which give a token."""
    skipped_caches: int
    """Keys and values that those have."""
    kinds: tuple[tuple[LayerKind, int], ...] = ()
    """How many of its layers are of each kind; all alike where left out."""

    @property
    def layers(self) -> int:
        """All of them."""
        return self.full + self.skipped

    def each(self, usual: LayerKind) -> tuple[tuple[LayerKind, int], ...]:
        """(kind, layers) of all of them; `usual` is the kind where they are alike."""
        return self.kinds or ((usual, self.layers),)

    def passed(self, usual: LayerKind) -> tuple[tuple[LayerKind, int], ...]:
        """The same of those that all rows pass; a model with others has one kind."""
        return ((usual, self.full),) if self.skipped else self.each(usual)

    def attending(self, model: Model, count: int) -> int:
        """Of `count` layers that rows pass, those that look back at keys and values."""
        if not self.kinds:
            return count if model.kinds[0].attends else 0
        return sum(number for kind, number in self.kinds if kind.attends)

    def windowed_share(self, model: Model) -> float:
        """Share of its layers of attention that have a sliding window; that of the model where windows are spread
        evenly."""
        if not self.kinds:
            return model.windowed_share
        attending = self.attending(model, self.layers)
        return sum(count for kind, count in self.kinds if kind.window is not None) / max(attending, 1)

    @property
    def caches(self) -> int:
        """Keys and values that the stage keeps of a token."""
        return self.full + self.skipped_caches


def depths(model: Model, counts: Sequence[int]) -> tuple[Depth, ...]:
    """The layers of each stage; `counts` are their numbers."""
    end = model.layers if model.prompt_layers is None else model.prompt_layers
    full = [min(count, max(0, end - (after - count))) for count, after in zip(counts, accumulate(counts), strict=True)]
    late = [count - kept for count, kept in zip(counts, full, strict=True)]
    ends = list(accumulate(counts))
    mixed = model.kinds if model.pattern else ()
    kinds = [tuple(Counter(mixed[end - n : end]).items()) for n, end in zip(counts, ends, strict=True)]
    caches = [-(-left // model.cache_group) for left in late]
    return tuple(Depth(*stage) for stage in zip(full, late, caches, kinds, strict=True))
