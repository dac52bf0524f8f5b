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

    policy: Literal["cut", "first-fit", "balanced", "pad", "bucket", "grid", "hybrid", "flexible"]
    """`cut` (documents follow one another through sequences, whose ends cut them), `first-fit` (whole documents,
    longest first, each into the first microbatch with room), `balanced` (longest first into the microbatch with least
    work), `pad` (each sequence is one document), `bucket` (so, of about equal lengths), or `grid` (shapes in turn);
    `hybrid` (long documents over several data-parallel ranks, short ones on one: ByteScale) and `flexible` (in each
    microbatch groups of ranks such that the slowest ends soonest: FlexSP)."""
    fill: Literal["none", "longest", "bucket", "context"] | None = None
    """Up to what length sequences are filled with padding: with `pad` and `bucket` to the `longest` of the microbatch,
    where left out, to the bound of the `bucket` or to the `context` (`sequence_length`); packed ones not (`none`, where
    left out) or to the `context`."""
    capacity: Count | None = None
    """With `balanced`, most tokens of a microbatch; `micro_batch` x `sequence_length` where left out (WLB-LLM lets
    packs of short documents be longer than the context). With `hybrid` and `flexible`, tokens that a data-parallel
    rank has room for in a microbatch."""
    balance: bool = False
    """With `hybrid`, whether documents go to ranks by falling work, so that ranks with long ones run fewer
    microbatches; as they come where left out."""
    disaggregated: float | None = Field(default=None, ge=0.01, le=1)
    """With `cut`, `first-fit` and `balanced`, whether the attention of each microbatch is spread over all data-parallel
    ranks, by the share of the mean that one may have more (DistCA's disaggregated core attention takes 0.1 to 0.15);
    each rank attends to its own documents where left out."""
    ping_pong: bool = True
    """With `disaggregated`, whether queries, keys, values and results travel beside the work of another half of the
    microbatch; before and after attention otherwise."""
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
        keys: dict[str, tuple[str, ...]] = {"shapes": ("grid",), "balance": ("hybrid",)}
        keys |= dict.fromkeys(("buckets", "encoder_buckets", "tokens", "synchronous"), ("bucket",))
        keys["capacity"] = ("balanced", "hybrid", "flexible")
        for name, policies in keys.items():
            if getattr(self, name) and self.policy not in policies:
                raise ValueError(f"`{name}` goes with `policy: {policies[0]}`, not with `{self.policy}`")
        if self.disaggregated is not None and (not self.packs or self.groups or self.fill == "context"):
            raise ValueError("`disaggregated` goes with `cut`, `first-fit` and `balanced`, without `fill`")
        if not self.ping_pong and self.disaggregated is None:
            raise ValueError("`ping_pong` goes with `disaggregated`")
        needs = {"bucket": "buckets", "grid": "shapes", "hybrid": "capacity", "flexible": "capacity"}
        if not getattr(self, needs.get(self.policy, "policy")):
            raise ValueError(f"`policy: {self.policy}` needs `{needs[self.policy]}`")
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
        return self.policy in ("cut", "first-fit", "balanced") or self.groups

    @property
    def groups(self) -> bool:
        """Whether data-parallel ranks share sequences."""
        return self.policy in ("hybrid", "flexible")


FILLS = {
    "cut": (),
    "first-fit": ("none", "context"),
    "balanced": ("none", "context"),
    "pad": ("longest", "context"),
    "bucket": ("longest", "bucket", "context"),
    "grid": (),
    "hybrid": (),
    "flexible": (),
}
"""What `fill` may be, by policy."""
