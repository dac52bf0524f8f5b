"""Draws that several generators share."""

from collections.abc import Mapping
from random import Random
from typing import Any


def some(random: Random, choices: Mapping[str, tuple[Any, ...]], often: float = 0.4) -> dict[str, Any]:
    """Values of some keys."""
    return {key: random.choice(values) for key, values in choices.items() if random.random() < often}
