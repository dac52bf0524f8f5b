"""The events that are due, as a heap: numbers and order are those that the clock would give them."""

from simulator.serving.compiled import layout as at
from simulator.serving.compiled.layout import State


def push(s: State, tick: int, begins: int, what: int) -> int:
    """An event; its number."""
    w, heap = s.w, s.heap
    number: int = w[at.NUMBER]
    w[at.NUMBER] = number + 1
    order = begins + number
    place = w[at.HEAP]
    w[at.HEAP] = place + 1
    while place > 0:
        above = (place - 1) // 2
        high = heap[above * at.EVENT]
        if high < tick or (high == tick and heap[above * at.EVENT + 1] < order):
            break
        for i in range(at.EVENT):
            heap[place * at.EVENT + i] = heap[above * at.EVENT + i]
        place = above
    heap[place * at.EVENT], heap[place * at.EVENT + 1], heap[place * at.EVENT + 2] = tick, order, what
    return number


def pop(s: State) -> None:
    """Take the first event away."""
    w, heap = s.w, s.heap
    size = w[at.HEAP] - 1
    w[at.HEAP] = size
    tick, order, what = heap[size * at.EVENT], heap[size * at.EVENT + 1], heap[size * at.EVENT + 2]
    place = 0
    while 2 * place + 1 < size:
        below = 2 * place + 1
        other = below + 1
        if other < size and (
            heap[other * at.EVENT] < heap[below * at.EVENT]
            or (
                heap[other * at.EVENT] == heap[below * at.EVENT]
                and heap[other * at.EVENT + 1] < heap[below * at.EVENT + 1]
            )
        ):
            below = other
        low = heap[below * at.EVENT]
        if tick < low or (tick == low and order < heap[below * at.EVENT + 1]):
            break
        for i in range(at.EVENT):
            heap[place * at.EVENT + i] = heap[below * at.EVENT + i]
        place = below
    heap[place * at.EVENT], heap[place * at.EVENT + 1], heap[place * at.EVENT + 2] = tick, order, what


def full(s: State) -> bool:
    """Whether a buffer might not hold what an iteration writes down, or the heap what it sets off."""
    w = s.w
    most, slots = w[at.MOST], w[at.SLOTS]
    found: bool = (
        w[at.ROWS] + 2 > most
        or w[at.GAPS] + 2 * slots + 2 > most
        or w[at.APART] + 2 > most
        or w[at.STRETCHES] + 2 > most
        or w[at.PAUSES] + slots + 2 > most
        or (w[at.HEAP] + w[at.REPLICAS] + 8) * at.EVENT > len(s.heap)
        or w[at.MARK] >= 0
    )
    return found
