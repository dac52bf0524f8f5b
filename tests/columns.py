"""The solver of shares, given a sharing problem as columns."""

from collections.abc import Sequence

from simulator.fabric import sharing


def max_min(
    activities: Sequence[int],
    resources: Sequence[int],
    rates: Sequence[float],
    flows: Sequence[float],
    capacity: Sequence[float],
) -> list[float]:
    """Speed of each activity: row i says what `activities[i]` uses; `capacity` is by number of the resource."""
    uses: list[list[tuple[int, float, float]]] = [[] for _ in range(max(activities, default=-1) + 1)]
    for activity, *use in zip(activities, resources, rates, flows, strict=True):
        uses[activity].append((use[0], use[1], use[2]))
    return sharing.max_min(uses, dict(enumerate(capacity)))
