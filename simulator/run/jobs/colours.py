"""Which chains of a training fare alike beside others: those that send over links on which all load alike.

A class of chains is run once. Chains that pay alike when they are alone may meet others on different links, so they are
kept apart by the kinds of links over which their collectives go.
"""

from collections.abc import Mapping
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from simulator.engine.wires import User
from simulator.fabric.alike import marks
from simulator.run.jobs.training import Trainer

Ints = NDArray[np.int64]


def colours(trainers: Mapping[str, Trainer], others: list[User]) -> dict[str, Ints | None]:
    """For each job the kind of place that each chain has among all that is sent: chains of one kind fare alike, if
    those of each class do.

    None where it meets no other or is not folded.
    """
    found: dict[str, Ints | None] = {}
    for name, trainer in trainers.items():
        links = np.array(sorted(trainer.user.met), np.int64)
        if not len(links) or len(trainer.prepared.network.chains) == 1:
            found[name] = None
            continue
        rows = chain(
            [trainer.site.fabric.capacity[links]],
            *(other.traffic.rows(links) for other in trainers.values()),
            (np.array([(user.most or {}).get(link, -1.0) for link in links.tolist()]) for user in others),
        )
        found[name] = trainer.traffic.apart(links, marks(rows, len(links)))
    return found
