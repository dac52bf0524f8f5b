"""Ways over a third group: Valiant's, always taken, and UGAL's, taken where the shortest ways are fuller.

Valiant's routing (STOC 1981) leads every flow between groups over a switch of a third one, by hash. UGAL (Kim, Dally,
Scott and Abts, ISCA 2008) compares for each flow the load of a short way with that of a longer one, each times its
cables, and takes the lesser. Here flows choose in turn by what others have laid on cables, four hashed ways of each
kind, until none moves: switches that know all loads (UGAL-G) in a steady state. Left out: that switches see only their
own queues, and how late these grow.
"""

import numpy as np

from simulator.fabric.alike import mixed
from simulator.fabric.wired.planning import laid
from simulator.fabric.wired.ways import Flows, Ints, Ways

OPTIONS = 4
"""Ways of each kind that a flow looks at."""


def over_third(ways: Ways, via: Ints, group: Ints, ends: tuple[Ints, Ints], flows: Flows) -> Ints:
    """Cables between pairs of switches over a third group, padded with -1; (longest way, flows).

    `via` are the switches that may be led over, `group` (switches,) the group of each.
    """
    here, goal = ends
    far = np.flatnonzero(group[here] != group[goal])
    middle = here.copy()
    with np.errstate(over="ignore"):
        draw = mixed(flows.key[far] + np.uint64(ways.seed) + np.uint64(7))
    for turn in range(4):  # hashes that fall on one of the two groups are drawn again
        pick = via[(mixed(draw + np.uint64(turn)) >> np.uint64(11)).astype(np.int64) % len(via)]
        open_ = middle[far] == here[far]
        third = (group[pick] != group[here[far]]) & (group[pick] != group[goal[far]])
        middle[far] = np.where(open_ & third, pick, middle[far])
    return np.concatenate([ways.walk(here, middle, flows), ways.walk(middle, goal, flows)])


def both_kinds(ways: Ways, via: Ints, group: Ints, ends: tuple[Ints, Ints], flows: Flows) -> Ints:
    """Short ways, then those over a third group; (flows, 2 * OPTIONS, longest way), padded with -1."""
    many = len(flows.key)
    turn = np.tile(np.arange(OPTIONS, dtype=np.uint64), many)
    with np.errstate(over="ignore"):
        key = mixed(np.repeat(flows.key, OPTIONS) + turn * np.uint64(0x9E3779B97F4A7C15))
    each = Flows(key, np.repeat(flows.number, OPTIONS))
    here, goal = (np.repeat(end, OPTIONS) for end in ends)
    found = [ways.walk(here, goal, each), over_third(ways, via, group, (here, goal), each)]
    options = np.full((many, 2 * OPTIONS, max(map(len, found))), -1, np.int64)
    for place, way in enumerate(found):
        options[:, place * OPTIONS : (place + 1) * OPTIONS, : len(way)] = way.T.reshape(many, OPTIONS, -1)
    return options


def by_load(options: Ints, ways: Ways) -> Ints:
    """Of each flow's ways (flows, ways, hops) the one with the least load times cables; (longest way, flows)."""
    chosen = laid(options, ways.rate, (options >= 0).sum(axis=2))
    picked: Ints = options[np.arange(len(options)), chosen].T
    return picked
