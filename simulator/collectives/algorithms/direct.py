"""Direct transfers: every member sends to every other at once, with no step in between.

An all-to-all as NCCL makes it of grouped sends; an all-gather or reduce-scatter in one step; an all-reduce in two; a
send; a shift, in which every member sends to the next one around (nccl-tests' sendrecv). Through a switch, transfers
from one device add up to one. Between nodes with equally many members data goes from member r to member r of the other
node and from there inside the node (NCCL's PXN), so rails stay apart.
"""

import numpy as np

from simulator.collectives import intra_node_rings
from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement, Transfers
from simulator.errors import InputError, Problem

AT_ONCE = 8
"""Peers that a channel of NCCL serves together; the next ones wait for these (NCCL_MAX_DEV_WORK_P2P_PER_BATCH,
NVIDIA/nccl src/include/device.h and addWorkBatchToPlan of src/enqueue.cc). An exchange with more peers pays as many
rounds of latency; those inside nodes pass while others are between."""


@ALGORITHMS.add("send")
def send(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """Sends alone, so that a profile can tell the copies of a pipeline or a ring from other direct transfers."""
    return direct(operation, layout) if operation.partition(":")[0] in ("send", "shift") else None


@ALGORITHMS.add("shift")
def shift(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """Shifts alone, so that a profile can tell a device that sends while it receives from one that only sends."""
    return direct(operation, layout) if operation.startswith("shift") else None


@ALGORITHMS.add("direct")
def direct(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All operations."""
    if operation in ("send", "broadcast"):
        others = np.arange(1, layout.members)
        return (_at_once(layout, (np.zeros_like(others), others, np.ones(len(others))), False),)
    if operation.startswith("shift"):
        ways = [int(way) for way in operation.split(":")[1:]] or [1]
        here = np.tile(np.arange(layout.members), len(ways))
        there = (here + np.repeat(ways, layout.members)) % layout.members
        return (_at_once(layout, (here, there, np.full(len(here), 1 / len(ways))), False),)
    transfers = every_pair(layout)
    if operation == "all_to_all":
        return (phase(1, transfers, *rounds(layout), rolling=layout.nodes == 1),)
    return tuple(_at_once(layout, transfers, reduce) for reduce in _STEPS[operation])


def rounds(layout: GroupPlacement) -> tuple[float, float]:
    """Hops inside a node and between nodes of an all-to-all: one after the other for every `AT_ONCE` peers there."""
    if layout.box:
        return 0.0, 1.0
    if layout.nodes == 1:
        return rounds_of(layout.members - 1), 0.0
    return 0.0, rounds_of(layout.members - min(layout.counts))


def rounds_of(peers: int) -> float:
    """How often a channel of NCCL starts anew to serve so many peers."""
    return float(-(-peers // AT_ONCE))


_STEPS = {"all_gather": (False,), "reduce_scatter": (True,), "all_reduce": (True, False)}
"""For each operation its steps: whether each reduces."""


def _at_once(layout: GroupPlacement, transfers: Transfers, reduce: bool) -> Phase:
    return phase(1, transfers, float(layout.nodes == 1), float(layout.nodes > 1), reduce=reduce)


def every_pair(layout: GroupPlacement) -> Transfers:
    """Every member sends 1 / n to every other."""
    n, counts = layout.members, layout.counts
    if layout.nodes == 1 and layout.homes[0].scale_up in ("switch", "host"):
        src, dst, share = layout.inside()
        return src, dst, share * (n - 1) / n
    apart = layout.nodes > 1 and layout.even and not layout.box
    check_pairs(n, layout.nodes if apart else n)
    if not apart:
        src, dst, share = intra_node_rings.everyone(n)
        return src, dst, share * (n - 1) / n
    src, dst, share = layout.inside()
    position = np.arange(n)
    ahead = counts[0] * np.arange(1, layout.nodes)
    far_src, far_dst = np.repeat(position, len(ahead)), ((position[:, None] + ahead) % n).ravel()
    return (
        np.concatenate([src, far_src]),
        np.concatenate([dst, far_dst]),
        np.concatenate([share * (counts[0] - 1) / n, np.full(len(far_src), counts[0] / n)]),
    )


MOST_PAIRS = 40_000_000
"""Transfers of an exchange above which it is refused: about 6 GB and a quarter of a minute."""


def check_pairs(members: int, each: int) -> None:
    """Refuse an exchange in which so many members send to `each` others."""
    if members * each > MOST_PAIRS:
        message = f"{members:,} members of which each sends to every other are {members * each:,} transfers at once"
        raise InputError(Problem(message, hint=f"price fewer members: at most {MOST_PAIRS:,} transfers are kept"))
