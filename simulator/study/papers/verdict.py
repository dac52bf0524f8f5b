"""Whether a published figure is reproduced, and what a system comes to.

A figure is reproduced within 10 %, or within the spread that its source gives; a ratio on the wrong side of 1 never is.
A bound ("over 3", "up to 2") that holds without being near is `holds`. A ratio on the right side of 1 has the right
`direction`, and no more where it hangs on inputs that were assumed. What would come out whatever the simulator does is
marked in the data and not counted.
"""

from collections.abc import Iterable
from math import isfinite

from simulator.results.documents.papers import DIRECTION, GIVEN, HOLDS, MISSED, NO_SCENARIO, OF_SYSTEMS, REPRODUCED
from simulator.study.papers.claims import Claim

NEAR = 0.1
"""Relative error up to which a figure is reproduced."""
EVEN = 0.02
"""Distance from 1 up to which a ratio says that two things are even."""


def error(claim: Claim, ours: float) -> float | None:
    """Relative error of a figure; None where a bound holds, NaN where ours is not known."""
    if not claim.published:
        return float("nan")
    found = ours / claim.published - 1
    if (claim.bound == "least" and found >= 0) or (claim.bound == "most" and found <= 0):
        return None
    return found


def verdict(claim: Claim, ours: float) -> str:
    """What a figure comes to."""
    if claim.by_construction:
        return GIVEN
    if not isfinite(ours) or (turned := _turned(claim, ours)) is True:
        return MISSED
    if claim.assumed:
        return DIRECTION if turned is False else MISSED
    if abs(ours - claim.published) <= max(NEAR, claim.spread or 0.0) * abs(claim.published):
        return REPRODUCED
    if error(claim, ours) is None:
        return HOLDS
    return DIRECTION if turned is False else MISSED


def _turned(claim: Claim, ours: float) -> bool | None:
    """Whether a ratio is on the other side of 1; None of other figures, and of ratios that are 1.

    Of a direction without a number the bound says which side that is, and ours has to be clear of 1.
    """
    if claim.figure.ratio is None or claim.unit:
        return None
    if claim.assumed and claim.published == 1:
        return ours < 1 + EVEN if claim.bound == "least" else ours > 1 - EVEN
    if abs(claim.published - 1) <= EVEN:
        return None
    return (ours - 1) * (claim.published - 1) <= 0


def best(verdicts: Iterable[str]) -> str:
    """The best of them; `no scenario` where there are none."""
    found = set(verdicts)
    return next((one for one in OF_SYSTEMS if one in found), NO_SCENARIO)
