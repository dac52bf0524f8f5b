"""What becomes of chains that are folded: what the worst pays, how far they differ, what they wait for."""

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def worst(ticks: Ints) -> Ints:
    """Every chain pays what the worst one pays."""
    return np.broadcast_to(ticks.max(axis=0), ticks.shape)


def spread(rows: Ints) -> float:
    """Largest relative difference in a column."""
    high, low = rows.max(axis=0), rows.min(axis=0)
    return float(np.max((high - low) / np.maximum(high, 1), initial=0.0))


def rendezvous(label: Ints, examples: Ints, peers: Ints) -> Ints:
    """Data-parallel groups in which chains of different classes wait for each other."""
    found = np.full(len(examples), -1, np.int64)
    for i, chain in enumerate(examples.tolist()):
        group = label[peers == peers[chain]]
        if np.any(group != i):
            found[i] = int(np.min(np.flatnonzero(np.isin(label, group))))
    return found
