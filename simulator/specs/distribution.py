"""What a distribution of lengths or of times says; `simulator.specs.distributions` draws from it."""

from itertools import pairwise
from typing import Annotated, ClassVar, Self

from pydantic import AfterValidator, Field, model_validator

from simulator import units
from simulator.specs.base import Spec

Number = Annotated[float, Field(allow_inf_nan=False)]


class Distribution(Spec):
    """A distribution of lengths (tokens) or of times (seconds); exactly one of the keys besides the bounds."""

    bare: ClassVar[str] = "fixed"

    fixed: Number | None = Field(default=None, ge=0)
    """Always this."""
    uniform: tuple[Number, Number] | None = None
    """Equally likely between two bounds, both included."""
    normal: tuple[Number, Number] | None = None
    """Mean and standard deviation."""
    lognormal: tuple[Number, Number] | None = None
    """Median and standard deviation of the logarithm."""
    exponential: Number | None = Field(default=None, gt=0)
    """Mean."""
    zipf: Number | None = Field(default=None, gt=0)
    """Exponent a: the probability of x in [`low`, `high`] is proportional to x**-a; both bounds are needed."""
    cdf: tuple[tuple[Number, Number], ...] | None = Field(default=None, min_length=1)
    """Points (value, probability of at most that value), rising, the last probability 1; straight in between."""
    low: Number | None = Field(default=None, ge=0)
    """Smaller values become this."""
    high: Number | None = Field(default=None, ge=0)
    """Larger values become this."""

    @property
    def most(self) -> float:
        """What it never exceeds; infinite where it has no end."""
        upper = self.uniform[1] if self.uniform else self.cdf[-1][0] if self.cdf else float("inf")
        ends = (upper if self.fixed is None else self.fixed, self.high)
        return min(end for end in ends if end is not None)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        bounds = {"low", "high"}
        given = [name for name in type(self).model_fields if name not in bounds and getattr(self, name) is not None]
        if len(given) != 1:
            kinds = ", ".join(f"`{name}`" for name in type(self).model_fields if name not in bounds)
            raise ValueError(f"give exactly one of {kinds}")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError(f"`low` {units.plain(self.low, 6)} is above `high` {units.plain(self.high, 6)}")
        self._check_zipf()
        self._check_pairs()
        self._check_cdf()
        return self

    def _check_zipf(self) -> None:
        if self.zipf is not None and (self.low is None or self.low < 1 or self.high is None):
            raise ValueError("`zipf` needs `low` (at least 1) and `high`")
        if self.zipf is not None and any(bound != int(bound) for bound in (self.low, self.high) if bound is not None):
            raise ValueError("`low` and `high` of `zipf` are whole numbers")

    def _check_pairs(self) -> None:
        low, high = self.uniform or (0.0, 0.0)
        if not 0 <= low <= high:
            raise ValueError("`uniform` takes two bounds, the lower first, neither negative")
        if self.normal is not None and self.normal[1] < 0:
            raise ValueError("`normal` takes a mean and a standard deviation, which is not negative")
        if self.lognormal is not None and (self.lognormal[0] <= 0 or self.lognormal[1] < 0):
            raise ValueError("`lognormal` takes a median above 0 and a standard deviation of the logarithm from 0 on")

    def _check_cdf(self) -> None:
        points = self.cdf or ((0.0, 1.0),)
        pairs = pairwise(points)
        if any(b[0] < a[0] or b[1] < a[1] for a, b in pairs) or points[0][0] < 0 or points[0][1] < 0:
            raise ValueError("the points of `cdf` rise in value and in probability, from 0 on")
        if points[-1][1] != 1:
            raise ValueError(f"the last probability of `cdf` is 1, not {points[-1][1]:g}")


def _at_least_one(given: Distribution) -> Distribution:
    if given.most < 1:
        raise ValueError(f"it is never more than {given.most:g}: write 1 or more")
    return given


Counts = Annotated[Distribution, AfterValidator(_at_least_one)]
"""A distribution of whole numbers of at least 1."""
