"""Which chains of a training fare alike beside others: those that send over links on which all load alike.

A class of chains is run once. Chains that pay alike when they are alone may meet others on different links, so they are
kept apart by the kinds of links over which their collectives go.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simulator.engine.wires import User
from simulator.run.jobs.training import Trainer

Ints = NDArray[np.int64]


def colours(trainers: Mapping[str, Trainer], others: list[User]) -> dict[str, Ints | None]:
    """For each job the kind of place that each chain has among all that is sent: chains of one kind fare alike, if
    those of each class do.

    None where it meets nobody or is not folded.
    """
    found: dict[str, Ints | None] = {}
    for name, trainer in trainers.items():
        links = np.array(sorted(trainer.user.met), np.int64)
        if not len(links) or len(trainer.prepared.network.chains) == 1:
            found[name] = None
            continue
        rows = [trainer.site.fabric.capacity[links][None]]
        rows += [other.traffic.columns(links) for other in trainers.values()]
        rows += [np.array([[(user.most or {}).get(link, -1.0) for link in links.tolist()]]) for user in others]
        kind = np.unique(np.round(np.vstack(rows), 3), axis=1, return_inverse=True)[1].reshape(-1)
        place = np.full(len(trainer.site.fabric.capacity), -1, np.int64)
        place[links] = kind
        found[name] = _keys(trainer, place)
    return found


def _keys(trainer: Trainer, kind: Ints) -> Ints:
    """Numbers of chains, equal where all that they run goes over links of the same kinds (links,), -1 for none."""
    columns = []
    for priced in trainer.lowered.classes.priced.values():
        kinds: dict[frozenset[int], int] = {frozenset(): 0}
        number = np.zeros(len(priced.cost.ticks) + 1, np.int64)
        for choice in priced.cost.plan.choices:
            on: dict[int, set[int]] = {row: set() for row in choice.rows.tolist()}
            for demand in choice.demands:
                group = np.repeat(choice.rows, len(demand.phase.size))
                for way in demand.paths:
                    seen = np.flatnonzero((way >= 0) & (kind[way] >= 0))
                    for row, colour in np.unique(np.stack([group[seen], kind[way[seen]]]), axis=1).T.tolist():
                        on[row].add(colour)
            for row, colour_set in on.items():
                number[row] = kinds.setdefault(frozenset(colour_set), len(kinds))
        columns.append(number[priced.rows])
    joined = np.concatenate(columns, axis=1) if columns else np.zeros((len(trainer.prepared.network.chains), 1))
    keys: Ints = np.unique(joined, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return keys
