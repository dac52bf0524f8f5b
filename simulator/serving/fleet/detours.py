"""Ways between devices of two nodes without the links that are down: over other devices of both nodes and their cards.

Source: path selection of Mooncake's transfer engine (arXiv:2407.00079), which takes another card where one fails.
"""

from collections.abc import Collection, Iterator, Sequence

from simulator.engine.tape import Use
from simulator.fabric import Fabric

Pairs = list[tuple[int, int]]


def detour(
    pairs: Sequence[tuple[int, int]], fabric: Fabric, down: Collection[int]
) -> tuple[Pairs, Pairs, Pairs] | None:
    """(ways to the device that sends, ways from node to node, ways from the device that receives) of pairs of source
    and target, those that are not needed left out; None where a pair has no way."""
    before, between, after = Pairs(), Pairs(), Pairs()
    for turn, (source, target) in enumerate(pairs):
        found = next((way for way in _candidates(source, target, turn, fabric) if _works(way, fabric, down)), None)
        if found is None:
            return None
        for ways, (one, other) in zip((before, between, after), found, strict=True):
            if one != other:
                ways.append((one, other))
    return before, between, after


def _candidates(source: int, target: int, turn: int, fabric: Fabric) -> Iterator[Pairs]:
    """Ways of a pair: its own, then those over devices of the same place in both nodes, beginning with another one each
    turn so that pairs spread over the cards that are left, then all others."""
    yield [(source, source), (source, target), (target, target)]
    numbering = fabric.numbering
    here = numbering.devices_of(numbering.node_of(source))
    there = numbering.devices_of(numbering.node_of(target))
    if here == there:
        yield from ([(source, one), (one, target), (target, target)] for one in here if one not in (source, target))
        return
    for i in range(len(here)):
        one, other = here[(i + turn) % len(here)], there[(i + turn) % len(there)]
        yield [(source, one), (one, other), (other, target)]
    yield from ([(source, one), (one, other), (other, target)] for one in here for other in there)


def _works(way: Pairs, fabric: Fabric, down: Collection[int]) -> bool:
    steps = [step for step in way if step[0] != step[1]]
    return not any(link in down for source, target in steps for link in fabric.between([source], [target]))


def together(uses: Sequence[tuple[float, Sequence[Use]]]) -> tuple[Use, ...]:
    """Uses of parts of a way that the same bytes pass at once, each with the ticks that a byte takes on it alone: at
    the pace of the slowest."""
    slowest = max(work for work, _ in uses)
    rates: dict[int, Use] = {}
    for work, part in uses:
        for use in part:
            known = rates.get(use.resource, Use(use.resource, 0.0, 0.0))
            rate = known.rate + use.rate * work / slowest
            rates[use.resource] = Use(use.resource, rate, known.flows + use.flows)
    return tuple(rates[resource] for resource in sorted(rates))
