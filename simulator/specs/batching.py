"""How sequences of different lengths become the microbatches of a step."""

from itertools import pairwise
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, Spec


class Batching(Spec):
    """How the lengths of `training.documents` become microbatches, each of which then has times of its own.

    Every data-parallel rank runs global_batch / (dp x micro_batch) microbatches a step.
    """

    bare: ClassVar[str] = "policy"

    policy: Literal["cut", "first-fit", "balanced", "pad", "bucket", "grid"]
    """`cut` (documents follow one another through sequences, whose ends cut them), `first-fit` (whole documents,
    longest first, each into the first microbatch with room), `balanced` (longest first into the microbatch with least
    work), `pad` (each sequence is one document), `bucket` (so, of about equal lengths), or `grid` (shapes in turn)."""
    fill: Literal["none", "longest", "bucket", "context"] | None = None
    """Up to what length sequences are filled with padding: with `pad` and `bucket` to the `longest` of the microbatch,
    where left out, to the bound of the `bucket` or to the `context` (`sequence_length`); packed ones not (`none`, where
    left out) or to the `context`."""
    capacity: Count | None = None
    """With `balanced`, most tokens of a microbatch; `micro_batch` x `sequence_length` where left out (WLB-LLM lets
    packs of short documents be longer than the context)."""
    buckets: tuple[Count, ...] = ()
    """With `bucket`, the longest sequence of each bucket, rising; where they end before, `sequence_length` is the
    last."""
    encoder_buckets: tuple[Count, ...] = ()
    """With `bucket` and an encoder, the longest of its sequences likewise: a bucket is a pair of both."""
    tokens: Count | None = None
    """With `bucket`, tokens of a microbatch at most, those of an encoder's sequences included: short buckets take more
    than `micro_batch` sequences at once. `micro_batch` in each where left out."""
    synchronous: bool = False
    """With `bucket`, whether all data-parallel ranks take from the same bucket at a time."""
    correlation: float = Field(default=0.0, ge=-1, le=1)
    """Spearman's rank correlation of `documents` and `encoder_documents` (Gaussian copula)."""
    shapes: tuple[tuple[Count, Count], ...] = ()
    """With `grid`, (sequences, tokens of each) of one microbatch after the other, again from the first after the last:
    frames x patches of clips, as multigrid training of video models takes them."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Keys belong to their policies."""
        keys = {"capacity": "balanced", "shapes": "grid"}
        keys |= dict.fromkeys(("buckets", "encoder_buckets", "tokens", "synchronous"), "bucket")
        for name, policy in keys.items():
            if getattr(self, name) and self.policy != policy:
                raise ValueError(f"`{name}` goes with `policy: {policy}`, not with `{self.policy}`")
        for name, policy in (("buckets", "bucket"), ("shapes", "grid")):
            if self.policy == policy and not getattr(self, name):
                raise ValueError(f"`policy: {policy}` needs `{name}`")
        for bounds in (self.buckets, self.encoder_buckets):
            if any(b <= a for a, b in pairwise(bounds)):
                raise ValueError("the bounds of buckets rise")
        if self.fill is not None and self.fill not in FILLS[self.policy]:
            raise ValueError(
                f"`fill: {self.fill}` is not one of `{self.policy}`: {', '.join(FILLS[self.policy]) or '-'}"
            )
        return self

    @property
    def packs(self) -> bool:
        """Whether a sequence holds several documents."""
        return self.policy in ("cut", "first-fit", "balanced")


FILLS = {
    "cut": (),
    "first-fit": ("none", "context"),
    "balanced": ("none", "context"),
    "pad": ("longest", "context"),
    "bucket": ("longest", "bucket", "context"),
    "grid": (),
}
"""What `fill` may be, by policy."""
