"""An order of the nodes in which a training's step is shorter: local search over permutations, then the simulator.

The search minimises the busy time of links (`traffic`). It begins from the order of the nodes' numbers and from one
that puts places which talk beside each other on the fastest pairs left, and moves the ends of the busiest pairs:
exchanges with every other place, and reversals of the stretch up to it, the best of all of them at a time. Where none
helps some places are shuffled, by the scenario's seed, and the search goes on from there. All orders of up to seven
nodes are looked at. What it finds is simulated beside the order of the numbers, and the shortest step wins: no answer
is worse than that of the scenario without a search.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from simulator import random, units
from simulator.errors import InputError, Problem
from simulator.run.gather import Run
from simulator.run.order.traffic import TIE, Traffic, rates_of, traffic_of
from simulator.specs.scenario import IN_ORDER, NodeOrder, Scenario

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_NODES = 1024
"""Nodes above which no order is searched."""
EVERY = 7
"""Nodes up to which all orders are looked at."""
_LOOKED_AT = 20_000_000
"""Pairs of nodes that are looked at, over all orders that are tried: some seconds."""
_KICKS = 30
"""Times that a search is shuffled."""
_PAIRS = 4
"""Busiest pairs whose ends are moved."""
_AT_ONCE = 2_000_000
"""Pairs of nodes of the orders that are priced at once."""
_BETTER = 1 - 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a search came to."""

    run: Run
    """The step in the best order."""
    nodes: tuple[int, ...]
    """The order, the numbers in their order where none is better."""
    default_s: float
    """Seconds of a step with ranks in order."""
    best_s: float
    looked_at: int
    """Orders whose busy time was worked out."""
    simulated: int
    """Orders whose step was simulated."""
    busy_s: tuple[float, float]
    """Seconds that the busiest pairs of all phases are busy, in order and in the best order."""
    traffic: Traffic | None
    """What places send each other; None where they send nothing."""
    rates: Floats
    """Bytes per second from node to node."""


def search(scenario: Scenario, step: Callable[[Scenario], Run]) -> Found:
    """The best order that was found for a scenario; `step` simulates one. InputError for too many nodes."""
    nodes = scenario.cluster.nodes
    if nodes > MOST_NODES:
        message = f"orders of up to {MOST_NODES:,} nodes are searched, and the cluster has {nodes:,}"
        raise InputError(Problem(message, path="placement", hint="write `in-order`, or `{nodes: [...]}`"))
    base = step(scenario.model_copy(update={"placement": IN_ORDER}))
    default = base.steps.mean_s
    plain, best, simulated = tuple(range(nodes)), (default, base), 1
    orders, looked_at, traffic, rates = _orders(base, scenario.seed)
    for order in orders:
        done = step(scenario.model_copy(update={"placement": NodeOrder(nodes=order)}))
        simulated += 1
        if done.steps.mean_s < best[0] * _BETTER:
            best = done.steps.mean_s, done
    placed = best[1].scenario.placement
    found = placed.nodes if isinstance(placed, NodeOrder) else plain
    busy = (0.0, 0.0)
    if traffic is not None:
        first, last = traffic.busy(rates, np.array([plain, found])).tolist()
        busy = first, last
    return Found(best[1], found, default, best[0], looked_at, simulated, busy, traffic, rates)


def searched(scenario: Scenario, step: Callable[[Scenario], Run]) -> Run:
    """The step of a scenario in the best order that was found, which says what was found."""
    found = search(scenario, step)
    noise = found.run.noise
    return replace(found.run, noise=replace(noise, assumptions=(*noise.assumptions, said(found))))


def said(found: Found) -> str:
    """What an order is worth, in a sentence."""
    default = units.format(found.default_s, "time")
    if found.nodes == tuple(range(len(found.nodes))):
        return f"ranks lie on the nodes in order: of {found.looked_at:,} orders none has a shorter step than {default}"
    nodes = ", ".join(map(str, found.nodes[:16])) + (", ..." if len(found.nodes) > 16 else "")
    return f"ranks lie on nodes {nodes}, as a search found; in order a step takes {default}"


def _orders(base: Run, seed: int) -> tuple[list[tuple[int, ...]], int, Traffic | None, Floats]:
    """Orders that are worth simulating, the most promising first, how many were looked at, and by what."""
    rates, traffic = rates_of(base.network.fabric), traffic_of(base)
    apart = rates[~np.eye(len(rates), dtype=bool)]
    if traffic is None or not len(apart) or float(apart.min()) == float(apart.max()):
        return [], 1, traffic, rates
    plain = np.arange(len(rates))
    if len(rates) <= EVERY:
        every = np.array(list(permutations(range(len(rates)))))
        price = traffic.busy(rates, every)
        best = [every[int(np.argmin(price))]] if price.min() < price[0] * _BETTER else []
        return [tuple(one.tolist()) for one in best], len(every), traffic, rates
    at_work = _Search(traffic, rates, random.stream(seed, "placement.order"))
    begins = (_greedy(traffic, rates), plain)
    ends = [at_work.from_order(begin, _LOOKED_AT // len(begins)) for begin in begins]
    now = float(traffic.busy(rates, plain[None], TIE)[0])
    better = sorted((one for one in ends if one[0] < now * _BETTER), key=lambda one: one[0])
    return list(dict.fromkeys(tuple(order.tolist()) for _, order in better)), at_work.orders, traffic, rates


@dataclass(slots=True, eq=False)
class _Search:
    """A local search, and what it has looked at so far."""

    traffic: Traffic
    rates: Floats
    drawn: np.random.Generator
    orders: int = 0

    def from_order(self, order: Ints, budget: int) -> tuple[float, Ints]:
        """(busy seconds, order) of the best that is found from one within a budget of pairs."""
        stop = self.orders + budget // len(self.traffic.src)
        best = now = self._descended(order, stop)
        for _ in range(_KICKS):
            if self.orders >= stop:
                break
            now = self._descended(self._shuffled(best[1]), stop)
            best = now if now[0] < best[0] * _BETTER else best
        return best

    def _descended(self, order: Ints, stop: int) -> tuple[float, Ints]:
        """The order after all moves that help."""
        price = float(self._priced(order[None])[0])
        while self.orders < stop:
            tried = np.concatenate(list(_moves(order, self.traffic.slowest(self.rates, order)[:_PAIRS])))
            prices = self._priced(tried)
            place = int(np.argmin(prices))
            if prices[place] >= price * _BETTER:
                break
            price, order = float(prices[place]), tried[place]
        return price, order

    def _priced(self, orders: Ints) -> Floats:
        self.orders += len(orders)
        some = max(1, _AT_ONCE // len(self.traffic.src))
        parts = [self.traffic.busy(self.rates, orders[a : a + some], TIE) for a in range(0, len(orders), some)]
        return np.concatenate(parts)

    def _shuffled(self, order: Ints) -> Ints:
        """The order with a few places drawn anew."""
        found, places = order.copy(), self.drawn.permutation(len(order))[: max(3, min(len(order) // 8, 8))]
        found[places] = found[np.roll(places, 1)]
        return found


def _moves(order: Ints, pairs: list[tuple[int, int]]) -> Iterator[Ints]:
    """Orders in which an end of one of some pairs of places lies elsewhere; (n, nodes) each."""
    many = len(order)
    for place in dict.fromkeys(end for pair in pairs for end in pair):
        others = np.delete(np.arange(many), place)
        exchanged = np.repeat(order[None], many - 1, axis=0)
        exchanged[np.arange(many - 1), place] = order[others]
        exchanged[np.arange(many - 1), others] = order[place]
        yield exchanged
        low, high = np.minimum(place, others)[:, None], np.maximum(place, others)[:, None]
        at = np.arange(many)
        yield order[np.where((at >= low) & (at <= high), low + high - at, at)]


def _greedy(traffic: Traffic, rates: Floats) -> Ints:
    """An order that gives each place, from those that send most on, the node with the fastest pairs to its peers."""
    many = len(rates)
    volume = np.zeros((many, many))
    np.add.at(volume, (traffic.src, traffic.dst), traffic.size)
    volume += volume.T
    both = np.minimum(rates, rates.T)
    node_at, free, linked = np.full(many, -1), np.ones(many, np.bool_), np.zeros(many)
    place, node = int(np.argmax(volume.sum(axis=1))), int(np.argmax(np.where(np.isinf(both), 0, both).sum(axis=1)))
    while True:
        node_at[place], free[node] = node, False
        linked += volume[place]
        open_ones = node_at < 0
        if not open_ones.any():
            return node_at
        place = int(np.argmax(np.where(open_ones, linked, -1.0)))
        peers = np.flatnonzero((volume[place] > 0) & ~open_ones)
        slowest = (volume[place, peers][:, None] / both[node_at[peers]]).max(axis=0, initial=0.0)
        node = int(np.argmin(np.where(free, slowest, np.inf)))
