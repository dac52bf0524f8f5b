"""Draws that several generators share."""

from collections.abc import Mapping
from random import Random
from typing import Any


def some(random: Random, choices: Mapping[str, tuple[Any, ...]], often: float = 0.4) -> dict[str, Any]:
    """Values of some keys."""
    return {key: random.choice(values) for key, values in choices.items() if random.random() < often}


def shallow(random: Random, model: str, often: float = 0.85) -> Any:
    """A model that ships, most often with few of its layers: all of them cost more time than they are worth."""
    return {"extends": model, "layers": random.choice((4, 8, 8))} if random.random() < often else model
