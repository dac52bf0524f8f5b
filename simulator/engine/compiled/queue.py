"""What is due, as a heap: the earliest first, of one tick the one that was asked for first."""

from simulator.engine.compiled import layout as at
from simulator.engine.compiled.layout import State


def push(s: State, tick: int, what: int, whose: int) -> int:
    """Something is due then; returns its number. What does not fit makes the run void."""
    w, heap = s.w, s.heap
    number: int = w[at.NUMBER]
    w[at.NUMBER] = number + 1
    place = w[at.HEAP]
    if (place + 1) * at.ENTRY > len(heap):
        w[at.BROKEN] = 1
        return number
    w[at.HEAP] = place + 1
    while place > 0:
        parent = (place - 1) >> 1
        if heap[parent * at.ENTRY] <= tick:  # of one tick the parent came first
            break
        for i in range(at.ENTRY):
            heap[place * at.ENTRY + i] = heap[parent * at.ENTRY + i]
        place = parent
    first = place * at.ENTRY
    heap[first], heap[first + 1], heap[first + 2], heap[first + 3] = tick, number, what, whose
    return number


def earlier(s: State, a: int, b: int) -> bool:
    """Whether place `a` of the heap comes before place `b`."""
    heap = s.heap
    a, b = a * at.ENTRY, b * at.ENTRY
    return bool(heap[a] < heap[b] or (heap[a] == heap[b] and heap[a + 1] < heap[b + 1]))


def pop(s: State) -> None:
    """Take the first off."""
    w, heap = s.w, s.heap
    last = w[at.HEAP] - 1
    w[at.HEAP] = last
    tick, number = heap[last * at.ENTRY], heap[last * at.ENTRY + 1]
    place = 0
    while 2 * place + 1 < last:
        child = 2 * place + 1
        if child + 1 < last and earlier(s, child + 1, child):
            child += 1
        first = child * at.ENTRY
        if heap[first] > tick or (heap[first] == tick and heap[first + 1] > number):
            break
        for i in range(at.ENTRY):
            heap[place * at.ENTRY + i] = heap[first + i]
        place = child
    for i in range(at.ENTRY):
        heap[place * at.ENTRY + i] = heap[last * at.ENTRY + i]
