"""Speculation: tokens that are drafted, verified together in one pass, and accepted as far as they are right."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, Fraction, Spec
from simulator.specs.model import Model


class DraftRange(Spec):
    """Draft length of iterations up to a number of sequences."""

    sequences: Count
    """Sequences that decode, up to which it holds."""
    draft_length: Annotated[int, Field(ge=0, le=64)]
    """Tokens that are drafted for each; 0: none."""


class Speculation(Spec):
    """How tokens are drafted, and how many of them are accepted: an assumption, which a scenario states."""

    kind: Literal["mtp", "eagle", "draft-model", "medusa", "n-gram", "parallel"] = "mtp"
    """What drafts: the model's module for multi-token prediction, again for each token (`mtp`); a head of one layer of
    the model's width (`eagle`); another model (`draft-model`); a head for each token (`medusa`); what the text had
    before, at no cost (`n-gram`); or the verifying pass itself (`parallel`: prompt tokens, lexical units, blocks of a
    diffusion model)."""
    draft_length: Annotated[int, Field(ge=0, le=64)] = 1
    """Tokens that are drafted for a sequence one after the other; 0: no speculation."""
    tree: Count | None = None
    """Candidates that a pass verifies for a sequence beside its last token, where they form a tree as deep as
    `draft_length`; one of each depth where left out."""
    width: Count = 1
    """Candidates of a depth that the draft extends, beyond the first (EAGLE-2: 10)."""
    per_pass: Annotated[int, Field(ge=1, le=64)] = Field(default=1, exclude_if=lambda tokens: tokens == 1)
    """Tokens of a sequence that a pass of the draft gives: 1 of drafts that write one after the other, more of
    semi-autoregressive ones (Falcon: 2) and of those that fill a block (as many as `draft_length`)."""
    acceptance: Fraction | tuple[Fraction, ...] | None = None
    """Probability that a drafted token is accepted where all before it were: one for all, or of each depth in turn. Of
    a tree: that one of the candidates of a depth is."""
    tokens_per_step: Annotated[float, Field(ge=1, le=65)] | None = None
    """In place of `acceptance`: tokens that a sequence gets from an iteration on average. Each gets the whole number
    below or the one above."""
    yields: Literal["random", "expected"] = "random"
    """Whether what a sequence gets is drawn, by the seed of the scenario, or follows the mean as closely as whole
    tokens can."""
    model: Model | None = None
    """The model that drafts, for `draft-model`. It lies on the devices of the model that it drafts for, cut as that."""
    by_load: tuple[DraftRange, ...] = ()
    """Other draft lengths by how many sequences decode; `draft_length` beyond the last of them."""
    source: str = ""
    """Where the acceptance was read, or that it is an estimate."""

    def length(self, sequences: int) -> int:
        """Tokens that are drafted for each of so many sequences."""
        if not self.by_load:
            return self.draft_length
        return next((part.draft_length for part in self.by_load if sequences <= part.sequences), self.draft_length)

    def passes(self, length: int) -> int:
        """Passes of the draft for so many tokens."""
        return -(-length // self.per_pass)

    def rows(self, sequences: int) -> int:
        """Rows that an iteration verifies for each of so many sequences, the one without a draft included."""
        length = self.length(sequences)
        return 1 + (self.tree if self.tree is not None and length == self.draft_length else length)

    @property
    def most_rows(self) -> int:
        """The most rows of a sequence."""
        return 1 + max(self.tree or 0, self.longest)

    @property
    def longest(self) -> int:
        """The most tokens that are drafted for a sequence."""
        return max([self.draft_length, *(part.draft_length for part in self.by_load)])

    def rates(self, length: int) -> tuple[float, ...]:
        """Probability of each depth that its token is accepted where those before it were."""
        if isinstance(self.acceptance, tuple):
            return self.acceptance[:length]
        return (self.acceptance or 0.0,) * length

    def chances(self, length: int) -> list[float]:
        """Probabilities of 1, 2 ... length + 1 tokens from an iteration with so many drafted tokens."""
        if self.tokens_per_step is not None:
            mean = min(self.tokens_per_step, length + 1.0)
            whole = min(int(mean), length) or 1
            return [
                max(0.0, 1.0 - abs(mean - tokens)) if tokens in (whole, whole + 1) else 0.0
                for tokens in range(1, length + 2)
            ]
        reached, found = 1.0, []
        for rate in self.rates(length):
            found.append(reached * (1.0 - rate))
            reached *= rate
        return [*found, reached]

    def mean(self, length: int | None = None) -> float:
        """Tokens that a sequence gets from an iteration on average."""
        chances = self.chances(self.draft_length if length is None else length)
        return sum((tokens + 1) * chance for tokens, chance in enumerate(chances))

    @model_validator(mode="after")
    def _stated(self) -> Self:
        if (self.acceptance is None) == (self.tokens_per_step is None) and self.draft_length:
            raise ValueError("write one of `acceptance` and `tokens_per_step`: what is accepted is an assumption")
        if isinstance(self.acceptance, tuple) and len(self.acceptance) < self.longest:
            told = f"`acceptance` has {len(self.acceptance)} depths of {self.longest}"
            raise ValueError(f"{told}: write one for each, or one number for all")
        if self.tokens_per_step is not None and self.tokens_per_step > self.draft_length + 1:
            told = f"`tokens_per_step` {self.tokens_per_step:g} of {self.draft_length} drafts"
            raise ValueError(f"{told}: at most {self.draft_length + 1}")
        return self

    @model_validator(mode="after")
    def _drafted(self) -> Self:
        if (self.kind == "draft-model") != (self.model is not None):
            raise ValueError("`kind: draft-model` names what drafts by `model`, and no other kind has one")
        if self.per_pass > 1 and self.kind not in ("mtp", "eagle", "draft-model"):
            raise ValueError(f"what drafts by `kind: {self.kind}` gives all tokens at once: leave `per_pass` out")
        if self.per_pass > max(self.longest, 1):
            raise ValueError(f"a pass that gives {self.per_pass} tokens drafts more than the {self.longest} asked for")
        if self.tree is not None and self.tree < self.draft_length:
            raise ValueError(f"a `tree` of {self.tree} candidates is not {self.draft_length} deep")
        bounds = [part.sequences for part in self.by_load]
        if bounds != sorted(set(bounds)):
            raise ValueError("`by_load` lists numbers of sequences from few to many")
        return self
