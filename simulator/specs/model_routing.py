"""Several models behind one address: which requests go to which of them, and which answers are asked again of another.

Sources: FrugalGPT (arXiv:2305.05176) for cascades of models, EllieSQL (arXiv:2503.22402) for routing by difficulty. How
often a model's answer will do, and how often it is right, are data: no text is read here.
"""

from typing import Annotated, Self

from pydantic import Field, model_validator

from simulator.specs.base import Percentage, Remaining, Seconds, Spec

Factor = Annotated[float, Field(gt=0, le=1000)]


class Difficulty(Spec):
    """Requests of one difficulty; pools are named as in `serving.pools`."""

    name: str
    """Name in reports."""
    share: Remaining
    """Share of the requests (of conversations, where there are such); all sum to 1."""
    sent: dict[str, Percentage] = Field(default={})
    """Share that a router sends first to each pool, as `{small: 90 %, large: 10 %}`; all sum to 1. The first of
    `cascade` gets all where left out."""
    accepted: dict[str, Percentage] = Field(default={})
    """Of a cascade: share of the answers of each pool that will do; all where left out. Other answers are thrown away,
    and the request is asked again of the next pool."""
    accuracy: dict[str, Percentage] = Field(default={})
    """Share of the answers of each pool that are right, of those that reach the client; unknown where left out."""


class Pipeline(Spec):
    """What a pool's way of asking makes of a request: schemas, examples, several calls."""

    prompt: Factor = 1.0
    """Tokens of its prompts, over those of the request; rounded, at least 1."""
    output: Factor = 1.0
    """Tokens of its answers, over those of the request; rounded, at least 1."""


class ModelRouting(Spec):
    """Which pool answers a request, where pools have models of their own."""

    classes: Annotated[tuple[Difficulty, ...], Field(min_length=1, max_length=100)]
    """Difficulties of requests, each with a share of them."""
    cascade: Annotated[tuple[str, ...], Field(max_length=100)] = ()
    """Pools from the cheapest to the best: an answer that will not do is asked again of the next one. The answers of
    the last always reach the client. No request is asked twice where left out."""
    judge: Seconds = 0.0
    """Time that judging an answer takes before it reaches the client, or is thrown away; of all pools of `cascade` but
    the last."""
    pipelines: dict[str, Pipeline] = Field(default={})
    """Tokens of prompts and answers by pool, where a pool's differ from those of the request."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names = [one.name for one in self.classes]
        if len(set(names)) < len(names):
            raise ValueError("`classes` have different names")
        if abs(sum(one.share for one in self.classes) - 1) > 1e-9:
            raise ValueError(f"`share` of all `classes` sums to 1, not to {sum(one.share for one in self.classes):g}")
        if len(set(self.cascade)) < len(self.cascade):
            raise ValueError("`cascade` names each pool once")
        for one in self.classes:
            self._check_class(one)
        return self

    def _check_class(self, one: Difficulty) -> None:
        total = sum(one.sent.values())
        if one.sent and abs(total - 1) > 1e-9:
            raise ValueError(f"`sent` of the class `{one.name}` sums to 1, not to {total:g}")
        if not one.sent and not self.cascade:
            raise ValueError(f"write `sent` of the class `{one.name}`: shares by pool, or `cascade`: pools in order")
        for pool in one.accepted:
            if pool not in self.cascade[:-1]:
                raise ValueError(
                    f"`accepted` of the class `{one.name}`: nothing comes after `{pool}` in `cascade`, so that its "
                    "answers are the last: leave it out, or list pools behind it"
                )
