"""Events of a fleet of plain replicas over arrays: what `Clock`, `Fleet`, `Replica`, `Batch` and the policies do.

Made to be compiled as one function, `advance`, and readable by Python as it is. Events have the numbers that the clock
would give them: answers are equal to the tick and to the event. What a table does not hold yet is asked for: `advance`
comes back and is called again with the answer.
"""

from simulator.serving.compiled import layout as at
from simulator.serving.compiled.arrivals import come, route
from simulator.serving.compiled.events import full, pop
from simulator.serving.compiled.iterations import iterate
from simulator.serving.compiled.layout import State


def advance(s: State) -> int:
    """Let time pass until all is done, a buffer is full or something is asked for; which of these."""
    w, heap = s.w, s.heap
    if w[at.ASKED] >= 0:
        asked = w[at.ASKED]
        w[at.ASKED] = -1
        said = iterate(s, asked, at.AGAIN)
        if said:
            return said
    while w[at.HEAP]:
        if full(s):
            return at.FULL
        tick, order, what = heap[0], heap[1], heap[2]
        if tick >= at.END:
            return at.TOO_LONG
        pop(s)
        w[at.NOW] = tick
        if what == at.ARRIVAL:
            come(s)
        elif what == at.ENTER:
            for request in range(w[at.FRESH], w[at.NEXT]):
                route(s, request)
            w[at.FRESH] = -1
        else:
            begins = order >= at.BEGINS
            if w[at.IO + what * at.WIDTH + at.DUE] == (order - at.BEGINS if begins else order):
                said = iterate(s, what, at.BEFORE if begins else at.AFTER_END)
                if said:
                    return said
    return at.DONE
