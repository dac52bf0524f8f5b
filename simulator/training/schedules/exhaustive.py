"""The shortest order of a small pipeline, of all that there are: states that it can be in, those first from which an
order may be shortest (A*).

A state is what each rank has begun, what it still runs and which outputs are under way. A rank begins a pass or waits
until another pass ends or an output arrives somewhere; to begin in between is no better. Microbatches are alike, so
that each stage takes them in order. Sends do not wait for each other here; what an order takes with that is for
`time_schedule`.
"""

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import accumulate, count, product
from typing import NamedTuple

from simulator.program.schedule import Schedule
from simulator.training.schedules.base import Pipeline
from simulator.training.schedules.orders import F, I, Pass, W, from_rows

Chosen = tuple[int | None, ...]
"""Place in `KINDS` of what each rank begins, None: nothing."""

MOST_RANKS, MOST_MICROBATCHES = 3, 4
"""Of a small pipeline, with one stage a rank."""
MOST_STATES = 20_000
"""Looked at before the search is given up."""
KINDS = (F, I, W)


class State(NamedTuple):
    """A pipeline at a moment."""

    begun: tuple[tuple[int, int, int], ...]
    """Passes F, I, W of each rank."""
    running: tuple[tuple[int, int], ...]
    """Place in `KINDS` and ticks left of each rank's pass; 0 ticks: none."""
    sent: tuple[tuple[int, int, int], ...] = ()
    """Ticks left, place in `KINDS` and rank of outputs under way."""


def is_small(pipeline: Pipeline) -> bool:
    """Whether all orders can be looked through; every pass has to take time."""
    sizes = pipeline.ranks <= MOST_RANKS and pipeline.microbatches <= MOST_MICROBATCHES and pipeline.chunks == 1
    costs = pipeline.known_costs
    least = min(int(kind.min()) for kind in (costs.forward, costs.input_gradient, costs.weight_gradient))
    return sizes and pipeline.split and pipeline.barrier and least > 0


def shortest(pipeline: Pipeline, below: float, limit: float) -> Schedule | None:
    """The shortest order of less than `below` ticks in which no rank keeps more than the limit; None where there is
    none, or where the search is given up."""
    search, number = _Search(pipeline, limit), count()
    came = dict[State, tuple[State, Chosen] | None]()
    first = State(((0, 0, 0),) * pipeline.ranks, ((0, 0),) * pipeline.ranks)
    queue: list[tuple[int, int, int, State, tuple[State, Chosen] | None]] = [(0, next(number), 0, first, None)]
    while queue and len(came) < MOST_STATES:
        _, _, now, state, before = heappop(queue)
        if state in came:
            continue
        came[state] = before
        if search.least(state) == 0:
            return from_rows(_rows(came, state))
        for chosen, took, after in search.steps(state):
            end = now + took + search.least(after)
            if end < below and after not in came:
                heappush(queue, (end, next(number), now + took, after, (state, chosen)))
    return None


def _rows(came: dict[State, tuple[State, Chosen] | None], end: State) -> list[list[Pass]]:
    """What each rank ran on the way to a state."""
    rows: list[list[Pass]] = [[] for _ in end.begun]
    while (before := came[end]) is not None:
        end, chosen = before
        for rank, place in enumerate(chosen):
            if place is not None:
                rows[rank].append((KINDS[place], rank, end.begun[rank][place]))
    return [row[::-1] for row in rows]


class _Search:
    """Which states follow each other in a pipeline."""

    def __init__(self, pipeline: Pipeline, limit: float) -> None:
        """Costs as plain numbers."""
        costs = pipeline.known_costs
        self.microbatches, self.limit, self.last = pipeline.microbatches, limit, pipeline.ranks - 1
        self.send, self.kept, self.rest = costs.send, costs.kept.tolist(), costs.kept_for_weights.tolist()
        ticks = (costs.forward, costs.input_gradient, costs.weight_gradient)
        self.ticks = [tuple(int(kind[rank]) for kind in ticks) for rank in range(pipeline.ranks)]
        back = [0, *accumulate(own[1] + self.send for own in self.ticks)]
        self.way_back = [way + self.ticks[0][2] for way in back[:-1]]

    def steps(self, state: State) -> Iterator[tuple[Chosen, int, State]]:
        """What ranks may begin together, the ticks until something ends or arrives, and the state then."""
        for chosen in product(*(self.options(state, rank) for rank in range(self.last + 1))):
            begun, running = list(state.begun), list(state.running)
            for rank, place in enumerate(chosen):
                if place is not None:
                    counts = list(begun[rank])
                    counts[place] += 1
                    begun[rank] = (counts[0], counts[1], counts[2])
                    running[rank] = (place, self.ticks[rank][place])
            under_way = [left for _, left in running if left] + [left for left, _, _ in state.sent]
            if under_way:
                took = min(under_way)
                yield chosen, took, self.later(State(tuple(begun), tuple(running), state.sent), took)

    def later(self, state: State, took: int) -> State:
        """The state after some ticks in which nothing but the last of them ends anything."""
        running = tuple((place, left - took) if left > took else (0, 0) for place, left in state.running)
        ended = [(rank, place) for rank, (place, left) in enumerate(state.running) if left == took]
        goes = [(place, rank) for rank, place in ended if place < 2 and rank != (self.last, 0)[place]]
        sent = [(left - took, place, rank) for left, place, rank in state.sent if left > took]
        sent += [(self.send, place, rank) for place, rank in goes if self.send]
        return State(state.begun, running, tuple(sorted(sent)))

    def options(self, state: State, rank: int) -> Iterator[int | None]:
        """What a rank may begin, None to wait or go on."""
        yield None
        if state.running[rank][1]:
            return
        forward, backward, weights = state.begun[rank]
        if forward < self.arrived(state, 0, rank - 1) and self.fits(state, rank):
            yield 0
        if backward < (self.arrived(state, 1, rank + 1) if rank < self.last else forward):
            yield 1
        if weights < backward:
            yield 2

    def arrived(self, state: State, place: int, rank: int) -> int:
        """Outputs of a rank that are where they are needed; before rank 0, all microbatches."""
        if rank < 0:
            return self.microbatches
        now, left = state.running[rank]
        under_way = sum(one[1:] == (place, rank) for one in state.sent)
        return state.begun[rank][place] - (left > 0 and now == place) - under_way

    def fits(self, state: State, rank: int) -> bool:
        """Whether a rank that runs nothing may keep one more microbatch."""
        forward, backward, weights = state.begun[rank]
        level = (forward + 1 - backward) * self.kept[rank] + (backward - weights) * self.rest[rank]
        return bool(level <= self.limit)

    def least(self, state: State) -> int:
        """Ticks that it takes at least from here: on each rank, until its first F comes, all of its passes, and the
        way back after its last I."""
        most = arrives = 0
        for rank, own in enumerate(self.ticks):
            forward, backward, weights = (self.microbatches - number for number in state.begun[rank])
            chain = state.running[rank][1] + forward * own[0] + backward * own[1]
            chain += arrives if backward == self.microbatches and not state.begun[rank][0] else 0
            most = max(most, chain + weights * own[2], chain + self.way_back[rank] if backward else 0)
            arrives = 0 if state.begun[rank][0] else arrives + own[0] + self.send
        return most
