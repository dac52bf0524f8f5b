"""A run of a tape over arrays: what `Clock.run` does with a `Player`, a lane after the other."""

from simulator.engine.compiled import layout as at
from simulator.engine.compiled.layout import State
from simulator.engine.compiled.queue import pop, push
from simulator.engine.compiled.sharing import joined, ring, ring_one, work
from simulator.engine.compiled.solving import settle


def resume(s: State, lane: int) -> None:
    """Go on until the lane has to wait, or to its end."""
    w = s.w
    now, op, over = w[at.NOW], s.w[s.w[at.OP] + lane], s.w[s.w[at.OVER] + lane]
    while True:
        op += over
        over = 1
        if op >= s.w[s.w[at.STOP] + lane]:
            push(s, now, at.LANE_ENDED, lane)
            break
        other = blocked(s, op, now)
        if other >= 0:
            wait_for(s, other, lane)
            over = 0
            break
        ticks = s.w[s.w[at.DURATION] + op]
        if ticks > 0:
            s.w[s.w[at.END] + op] = now + ticks
            if s.w[s.w[at.AWAITED] + op]:
                push(s, now + ticks, at.SLOT, op)
                wait_for(s, op, lane)
            else:
                push(s, now + ticks, at.LANE, lane)
            break
        if ticks < 0:
            special(s, op, lane)
            break
        s.w[s.w[at.END] + op] = now
        if s.w[s.w[at.AWAITED] + op]:
            push(s, now, at.SLOT, op)
            w[at.EXTRA] += 1
    s.w[s.w[at.OP] + lane], s.w[s.w[at.OVER] + lane] = op, over


def blocked(s: State, op: int, now: int) -> int:
    """A slot that an operation waits for and that has not ended, -1 for none."""
    other: int = s.w[s.w[at.WAIT] + op]
    if other >= -1:
        return other if other >= 0 and s.w[s.w[at.END] + other] > now else -1
    row = -2 - other
    for i in range(s.w[s.w[at.SEVERAL_START] + row], s.w[s.w[at.SEVERAL_START] + row + 1]):
        other = s.w[s.w[at.SEVERAL] + i]
        if s.w[s.w[at.END] + other] > now:
            return other
    return -1


def wait_for(s: State, slot: int, lane: int) -> None:
    """A lane waits for the end of a slot, behind those that do already."""
    s.w[s.w[at.AWAITED] + slot], s.w[s.w[at.FOLLOWING] + lane] = 1, -1
    if s.w[s.w[at.FIRST_WAITING] + slot] < 0:
        s.w[s.w[at.FIRST_WAITING] + slot] = lane
    else:
        s.w[s.w[at.FOLLOWING] + s.w[s.w[at.LAST_WAITING] + slot]] = lane
    s.w[s.w[at.LAST_WAITING] + slot] = lane


def special(s: State, op: int, lane: int) -> None:
    """Join a rendezvous, start it if this lane is the last to come, or start an activity; wait for its end."""
    slot, now = s.w[s.w[at.SLOT_OF] + op], s.w[at.NOW]
    rendezvous = slot - s.w[at.OPERATIONS]
    s.w[s.w[at.AWAITED] + slot] = 1
    if rendezvous < 0:
        s.w[s.w[at.BEGIN] + slot] = now
        work(s, s.w[s.w[at.ACTIVITY] + op], slot, lane, s.w[s.w[at.LABEL] + op])
    else:
        s.w[s.w[at.ABSENT] + rendezvous] -= 1
        if not s.w[s.w[at.ABSENT] + rendezvous]:
            s.w[s.w[at.BEGIN] + slot] = now
            if s.w[s.w[at.MEETING] + rendezvous] >= 0:
                work(s, s.w[s.w[at.MEETING] + rendezvous], slot, lane, s.w[s.w[at.LABEL] + op])
            else:
                s.w[s.w[at.END] + slot] = now + s.w[s.w[at.LASTS] + rendezvous]
                push(s, s.w[s.w[at.END] + slot], at.SLOT, slot)
    wait_for(s, slot, lane)


def wake(s: State, slot: int) -> None:
    """All that wait for a slot go on."""
    lane = s.w[s.w[at.FIRST_WAITING] + slot]
    s.w[s.w[at.FIRST_WAITING] + slot] = -1
    while lane >= 0:
        following = s.w[s.w[at.FOLLOWING] + lane]
        resume(s, lane)
        lane = following


def ended(s: State, lane: int) -> None:
    """The operation of a lane is over: it goes on, and then those that have come to wait for it."""
    op = s.w[s.w[at.OP] + lane]
    resume(s, lane)
    if s.w[s.w[at.AWAITED] + op]:
        wake(s, op)


def advance(s: State, most: int) -> int:
    """Let time pass, for so many entries at most; returns why it came back."""
    w, heap = s.w, s.heap
    if w[at.FRESH]:
        w[at.FRESH] = 0
        for lane in range(w[at.ALL_LANES]):
            if s.w[s.w[at.OP] + lane] < s.w[s.w[at.STOP] + lane]:
                w[at.LANES] += 1
                resume(s, lane)
        if not w[at.LANES]:
            push(s, w[at.NOW], at.ALL_ENDED, 0)
    if w[at.SETTLING]:
        said = settle(s)
        if said:
            return said
    while w[at.HEAP]:
        if w[at.BROKEN]:
            return at.OVERRUN
        if not most:
            return at.PAUSE
        if 2 * w[at.HEAP] * at.ENTRY > len(heap) or w[at.LOGGED] + w[at.ROOM] > w[at.MOST_ROWS]:
            return at.FULL
        most -= 1
        tick, number, what, whose = heap[0], heap[1], heap[2], heap[3]
        if tick >= at.NEVER:
            return at.TOO_LONG
        pop(s)
        w[at.NOW] = tick
        if what == at.LANE:
            ended(s, whose)
        elif what == at.SLOT:
            wake(s, whose)
        elif what == at.TIMER_ONE:
            ring_one(s, whose, number)
        elif what == at.TIMER:
            ring(s, whose, number)
        elif what == at.JOINING:
            joined(s, whose)
        elif what == at.SETTLE:
            said = settle(s)
            if said:
                return said
        elif what == at.LANE_ENDED:
            w[at.LANES] -= 1
            if not w[at.LANES]:
                push(s, tick, at.ALL_ENDED, 0)
    return at.OVERRUN if w[at.BROKEN] else at.DONE
