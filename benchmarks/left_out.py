"""Errors of rows under fits that have not seen their source: of fits made again, and of those that never saw it.

benchmarks/left_out.json has the errors under fits made again without a source. Most sources of mixtures of experts, cut
sequences and narrow formats are in no fit: their rows err left out as they do under the shipped numbers. Whether one is
in a fit stands in the sources of its stack's figures, which name what they were fitted or chosen on.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from simulator.errors import InputError
from simulator.specs import load_spec, names
from simulator.specs.base import Figure
from simulator.specs.training import Stack
from simulator.study.validate.training import Outcome

REFITTED = Path(__file__).with_name("left_out.json")
"""Errors by row, made by `clustersim calibrate stack ROWS --as-is --left-out FILE`."""


def refitted() -> dict[str, float]:
    """Errors by row under fits made again without the row's source."""
    return dict(json.loads(REFITTED.read_text()))


def unseen(outcomes: Sequence[Outcome], made_again: Mapping[str, float]) -> dict[str, float]:
    """Errors by row under fits that have not seen its source; rows whose source taught their stack, and without which
    no fit was made, are left out."""
    never = (o for o in outcomes if o.error is not None and o.id not in made_again and not is_taught(o))
    return dict(made_again) | {outcome.id: outcome.error for outcome in never if outcome.error is not None}


def is_taught(outcome: Outcome) -> bool:
    """Whether a figure of the stack of a row names its source; so it counts as well where nothing was simulated."""
    if outcome.row is None or outcome.like is None:
        return True
    name = re.escape(outcome.row.source)
    return re.search(rf"(?<![\w-]){name}(?![\w-])", taught(outcome.like.conditions.stack)) is not None


@cache
def taught(stack: str) -> str:
    """What the figures of the training stack of this name say of their sources."""
    return next((" ".join(_sources(spec)) for spec in _stacks() if spec.name == stack), "")


def _sources(stack: Stack) -> list[str]:
    return [figure.source for _, figure in stack if isinstance(figure, Figure)]


@cache
def _stacks() -> tuple[Stack, ...]:
    """The training stacks that ship."""
    found = []
    for name in names(Stack):
        with suppress(InputError):  # those that serve
            found.append(load_spec(Stack, name))
    return tuple(found)
