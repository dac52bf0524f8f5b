"""What the numbers of a training stack are likely to be before any row of it is seen, from the other stacks that ship.

Stacks call the same kernels and launch layers by the same framework, so their numbers lie near each other. Middle and
spread of a number are those of the logarithms of what other stacks have measured, the spread no less than `SPREADS`.
Where few have measured it, estimates that come from elsewhere than a fit count too. Equal values count once, as one
stack took it from the other. Rows that do not tell a number leave it there, and few rows move it little. A number that
a stack has by definition (`status: datasheet`: a step that is one compiled program takes no host a layer) is known.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from math import exp, log

import numpy as np

from simulator.calibration.stacks.numbers import COMMAND, Point, fitted_file
from simulator.errors import InputError
from simulator.specs.base import Figure
from simulator.specs.catalog import names
from simulator.specs.resolve import load_spec
from simulator.specs.training import Stack

SPREADS: Mapping[str, float] = {"compute_efficiency": 0.1, "layer_overhead": 0.5}
"""Least standard deviation of the logarithm of a number between stacks. Measured efficiencies lie 0.11 apart (0.67 to
0.91); a host launches a layer in half or twice the time, by its processor and by how many calls a layer has."""
FEW = 3
"""Stacks that have measured a number, below which estimates count too."""
LEAST = 1e-6
"""What nought counts as, where a stack of a user has it."""
ERROR = 0.05
"""Absolute log error of rows at their best, which weighs them against the prior."""


@dataclass(frozen=True, slots=True)
class Prior:
    """Medians of numbers, and standard deviations of their logarithms; 0 of those that are known."""

    middle: Point
    spread: Point

    def cost(self, point: Point) -> float:
        """What a point costs, as absolute log errors of rows: half the squares of its distances, times `ERROR`."""
        return ERROR * sum(one * one for one in self.away(point)) / 2

    def away(self, point: Point) -> list[float]:
        """Distances of a point in standard deviations, of the numbers that are not known."""
        return [log(max(p, LEAST) / m) / s for p, m, s in zip(point, self.middle, self.spread, strict=True) if s]


def prior(name: str, fields: Sequence[str], unseen: str | None = None) -> Prior:
    """The prior of a stack's numbers, by figures of other stacks that name no `unseen` source."""
    stack = load_spec(Stack, name)
    middle, spread = zip(*(_likely(name, getattr(stack, field), field, unseen) for field in fields), strict=True)
    return Prior(middle, spread)


def _likely(name: str, own: Figure[float], field: str, unseen: str | None) -> tuple[float, float]:
    """Median of a number, to two digits, and the spread of its logarithm."""
    if own.status == "datasheet":
        return own.value, 0.0
    logs = np.log(_kin(name, field, unseen))
    return float(f"{exp(np.median(logs)):.2g}"), max(SPREADS[field], float(np.std(logs)))


def _kin(name: str, field: str, unseen: str | None) -> list[float]:
    """What other stacks have for a number."""
    figures = [figure for other, figure in _figures(field) if other != name and _knows(figure, unseen)]
    measured = {figure.value for figure in figures if figure.status == "measured"}
    return sorted(measured if len(measured) >= FEW else {figure.value for figure in figures})


def _knows(figure: Figure[float], unseen: str | None) -> bool:
    """Whether a figure says something: not nought, not left to others by a fit, and not from an unseen source."""
    known = figure.status == "measured" or COMMAND not in figure.source
    return figure.value > 0.0 and known and (unseen is None or unseen not in figure.source)


def _figures(field: str) -> Iterator[tuple[str, Figure[float]]]:
    """A number of each stack whose file states it."""
    for stack in _stacks():
        if fitted_file(Stack.folder or "", field, stack) == stack:
            yield stack, getattr(load_spec(Stack, stack), field)


@cache
def _stacks() -> tuple[str, ...]:
    """Stacks that train."""
    found = []
    for name in names(Stack):
        with suppress(InputError):  # those that serve
            load_spec(Stack, name)
            found.append(name)
    return tuple(found)
