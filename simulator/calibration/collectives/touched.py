"""Which figures of a profile measured rows tell, by sensitivities: derivatives of the logarithms of times by those of
figures.

A figure is identified where rows touch it and know it better than it is known from other devices (`Prior.spread`): its
standard error is that of the curvature of the rows alone, without the prior. Of figures that trade against each other
(the launch and the hops of groups of one size) those that rows tell worst are held at what the profile has, one after
the other, until the rows tell the rest.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import numpy as np

from simulator.calibration.collectives.figures import BOUNDS, kind_of
from simulator.calibration.collectives.model import Model
from simulator.calibration.fitting import Floats, standard_errors

FEWEST = 2
"""Rows that must touch a figure: nothing is fitted on a single row."""
TOUCHED = 0.05
"""Share of a change of a figure that a row must follow for the row to touch it."""
NOISE = 0.1
"""Logarithm by which a row that is priced well is off: what clocks, clusters' settings and the model's form leave."""
STEP = 0.01
"""Change of the logarithm of a figure, either way, of which derivatives are taken."""
NEAR = 0.01
"""Share of a bound within which a figure counts as at it."""


class Told(NamedTuple):
    """What rows say of figures, by path."""

    rows: dict[str, int]
    """The identified ones, with the number of rows that touch each."""
    bounded: tuple[str, ...]
    """Those of them that end at a bound of their range: the rows ask for more than it allows."""
    loose: tuple[str, ...]
    """Those that the rows do not identify."""


def identified(
    model: Model, figures: Mapping[str, float], paths: Collection[str], spread: Mapping[str, float], off: Floats
) -> dict[str, int]:
    """Those of the paths that the rows of a model identify, with the number of rows that touch each.

    `off` are the residuals of the rows at these figures; `spread` standard deviations of the logarithms of figures
    without these rows.
    """
    listed = sorted(paths)
    each = sensitivities(model, figures, listed)
    counts = dict(zip(listed, (np.abs(each) >= TOUCHED).sum(axis=0).tolist(), strict=True))
    scaled = each * np.array([spread[path] for path in listed])
    kept = [place for place, path in enumerate(listed) if counts[path] >= FEWEST]
    while kept:
        errors = standard_errors(scaled[:, kept], off, NOISE)
        worst = int(np.argmax(errors))
        if errors[worst] < 1:
            break
        del kept[worst]
    return {listed[place]: int(counts[listed[place]]) for place in kept}


def sensitivities(model: Model, figures: Mapping[str, float], paths: Collection[str]) -> Floats:
    """Derivatives of the logarithm of each row's time by that of each figure, shape (rows, paths)."""
    found = np.zeros((len(model.rows), len(paths)))
    for place, path in enumerate(paths):
        up, down = (model.seconds({**figures, path: figures[path] * np.exp(step)}) for step in (STEP, -STEP))
        found[:, place] = np.log(up / down) / (2 * STEP)
    return found


def at_bound(path: str, value: float) -> bool:
    """Whether a figure lies at an end of the range in which it is searched."""
    low, high = BOUNDS[kind_of(path)]
    return not low * (1 + NEAR) < value < high * (1 - NEAR)
