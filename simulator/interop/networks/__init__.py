"""Networks that other programs describe, as clusters of ours.

Each reader takes the text of a file, its name for messages, and the cluster whose nodes are meant; it gives the keys of
a cluster file and what was assumed. Raises InputError for what cannot be read.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from simulator.specs.hardware import Cluster


class Read(NamedTuple):
    """A network as it was read."""

    keys: dict[str, Any]
    """Of a cluster file, besides the cluster that it extends."""
    assumed: list[str]
    """What the file leaves open."""


Reader = Callable[[str, str, Cluster], Read]


def figure(value: str, source: str) -> dict[str, str]:
    """A number of a cluster file with where it came from."""
    return {"value": value, "status": "datasheet", "source": source}
