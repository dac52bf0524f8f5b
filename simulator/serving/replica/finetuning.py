"""Tokens of a training of an adapter that fill iterations of a replica up to an objective (FlexLLM, arXiv:2402.18789).

An iteration works on what the policy chose, and then on as many tokens of one training sequence as it may last longer:
windows of its forward pass, whose rows join those that are served, or tokens of its backward pass, which goes layer by
layer over windows of the sequence in kernels of its own. While nothing is served iterations are of training alone, as
long at most, so that a request that comes waits no longer than for one of them.

Left out: that collectives of training rows share links with others, and what the data loader does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simulator.serving.costs.beside.finetuning import FinetuningCost, backward_attention
from simulator.specs.adapters import Finetuning
from simulator.units import to_ticks

if TYPE_CHECKING:
    from simulator.serving.costs.iteration import StageCost


@dataclass(slots=True)
class FinetuningCounts:
    """What has been done."""

    forward: int = 0
    """Tokens whose forward pass is done."""
    backward: int = 0
    """Tokens whose backward pass is done too."""
    sequences: int = 0
    updates: int = 0
    ticks: int = 0
    """By which iterations were longer, or which were of training alone."""
    alone: int = 0
    """Iterations of training alone."""
    end: int = 0
    """When the last iteration that trained ended."""


class FinetuningTokens:
    """The training of a replica of one batch and one stage."""

    __slots__ = (
        "_alone",
        "_backward_left",
        "_forward_left",
        "cost",
        "counts",
        "own",
        "per_token",
        "rule",
        "target",
        "wanted",
    )

    def __init__(
        self, cost: "StageCost", own: FinetuningCost, rule: Finetuning, target: float, wanted: Callable[[], bool]
    ) -> None:
        """The first sequence has not begun. Iterations with training last `target` seconds at most, and none is of
        training alone when `wanted` says no."""
        self.cost, self.own, self.rule, self.wanted = cost, own, rule, wanted
        self.target = to_ticks(target)
        length, window = rule.sequence_length, min(rule.window, rule.sequence_length)
        whole, rest = divmod(length, window)
        rows = whole * cost.rows(window, window) + (cost.rows(rest, rest) if rest else 0)
        rows += whole * own.beside(window, 2) + own.beside(rest, 2)
        self.per_token = (rows + backward_attention(cost.attention, length)) / length
        """Ticks of the backward pass of a token."""
        self.counts = FinetuningCounts()
        self._forward_left = self._backward_left = length
        self._alone: FinetuningCounts | None = None
        """What was done before the present iteration, where nothing is served in it."""

    def fill(self, rows: int, sampled: int, span: int) -> int:
        """Ticks by which an iteration that would last `span` for its rows is longer with training."""
        left = room = self.target - span
        while left > 0:
            if self._forward_left:
                taken, ticks = self._forward(rows, sampled, left)
                rows, sampled = rows + taken, sampled + taken
            else:
                taken, ticks = self._backward(left)
            if not taken:
                break
            left -= ticks
        more = max(room, left) - left
        self.counts.ticks += more
        return more

    def alone(self, now: int) -> int:
        """Ticks of an iteration of training alone that begins now; 0 where there is none."""
        host, before = self.cost.host(0), replace(self.counts)
        more = self.fill(0, 0, host) if self.wanted() else 0
        if not more:
            return 0
        self.counts.alone += 1
        self.counts.end = now + host + more
        self._alone = before
        return host + more

    def served_out(self) -> bool:
        """Whether an iteration of training alone ends after the last token of all, so that it counts no more."""
        before, self._alone = self._alone, None
        if before is None or self.wanted():
            return False
        self.counts = before
        return True

    def _forward(self, rows: int, sampled: int, left: int) -> tuple[int, int]:
        """(tokens, ticks) of the most of a window that fits beside so many rows."""
        most = min(self._forward_left, self.rule.window)
        begun = self.rule.sequence_length - self._forward_left
        base = self.cost.rows(rows, sampled) if rows else 0

        def ticks(tokens: int) -> int:
            own = self.cost.attention.prompt(tokens, begun) + self.own.beside(tokens)
            return self.cost.rows(rows + tokens, sampled + tokens) - base + own

        tokens = _largest(lambda count: ticks(count) <= left, most)
        if not tokens:
            return 0, 0
        self._forward_left -= tokens
        self.counts.forward += tokens
        return tokens, max(ticks(tokens), 0)

    def _backward(self, left: int) -> tuple[int, int]:
        """The same of the backward pass; with the last token the adapter may be updated."""
        counts = self.counts
        tokens = min(self._backward_left, int(left / self.per_token))
        self._backward_left -= tokens
        counts.backward += tokens
        ticks = round(tokens * self.per_token)
        if not self._backward_left:
            self._forward_left = self._backward_left = self.rule.sequence_length
            counts.sequences += 1
            if counts.sequences % self.rule.batch == 0:
                counts.updates += 1
                ticks += self.own.update
        return tokens, ticks


def _largest(fits: Callable[[int], bool], most: int) -> int:
    """The largest count up to `most` that fits, as all below it do; 0 where none does."""
    if fits(most):
        return most
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
