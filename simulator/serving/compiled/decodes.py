"""Sequences that decode: what `Decodes` and `Replica.preempt` do, over arrays."""

from simulator.serving.compiled import layout as at
from simulator.serving.compiled.layout import State


def grown(s: State, r: int, count: int) -> int:
    """As `Decodes.grown`."""
    w, b = s.w, at.IO + r * at.WIDTH
    c, size = w[at.COUNTS] + r * w[at.SIZES], w[w[b + at.KIND] + at.SIZE]
    whole, rest = count // size, count % size
    place = -w[b + at.ITERATION] % size
    found = 0
    if whole:
        for i in range(size):
            found += w[c + i]
        found *= whole
    for _ in range(rest):
        found += w[c + place]
        place = place - 1 if place else size - 1
    return found


def affordable(s: State, r: int, free: int) -> int:
    """Iterations, at least 1, that so many blocks suffice for, as `Decodes.affordable`."""
    w, b, each = s.w, at.IO + r * at.WIDTH, 0
    c, size = w[at.COUNTS] + r * w[at.SIZES], w[w[b + at.KIND] + at.SIZE]
    for i in range(size):
        each += w[c + i]
    whole, left, rest = free // each, free % each, 0
    place = -w[b + at.ITERATION] % size
    while w[c + place] <= left:
        left -= w[c + place]
        rest += 1
        place = place - 1 if place else size - 1
    count: int = max(1, whole * size + rest)
    return count


def leap(s: State, r: int, taken: int) -> int:
    """Iterations of a stretch that begins now, as `Batch.fast_forward`; blocks are taken."""
    w, b = s.w, at.IO + r * at.WIDTH
    count: int = w[b + at.NEXT_END] - w[b + at.ITERATION]
    count = min(count, (w[b + at.LINE_LIMIT] - w[b + at.CONTEXT]) // w[b + at.DECODES] + 1)
    if count <= 1:
        return 1
    more = grown(s, r, count) - taken
    if more > w[b + at.FREE]:
        count = affordable(s, r, w[b + at.FREE] + taken)
        more = grown(s, r, count) - taken
    w[b + at.FREE] -= more
    return count


def join(s: State, r: int, request: int, now: int) -> None:
    """A request whose token came out now decodes from the next iteration on."""
    w, b = s.w, at.IO + r * at.WIDTH
    m, n = w[at.MEMBERS] + r * w[at.SLOTS], w[b + at.DECODES]
    done = s.short[at.GENERATED][request]
    length = s.short[at.PROMPT][request] + done
    end = w[b + at.ITERATION] + s.short[at.OUTPUT][request] - done
    if n == 0:
        w[b + at.LAST] = now
        w[b + at.NEXT_END] = end
    elif now != w[b + at.LAST] or w[b + at.FRESH_ONES]:
        w[w[at.JOINED] + m + w[b + at.FRESH_ONES]] = now
        w[b + at.FRESH_ONES] += 1
    w[b + at.NEXT_END] = min(w[b + at.NEXT_END], end)
    w[m + n], w[w[at.ENDS] + m + n] = request, end
    w[b + at.DECODES] = n + 1
    w[b + at.CONTEXT] += length
    size = w[w[b + at.KIND] + at.SIZE]
    w[w[at.COUNTS] + r * w[at.SIZES] + (length - 1 - w[b + at.ITERATION]) % size] += 1


def leave(s: State, r: int, length: int) -> None:
    """A member of so many tokens, the next included, is off the sums."""
    w, b = s.w, at.IO + r * at.WIDTH
    w[b + at.DECODES] -= 1
    w[b + at.CONTEXT] -= length
    size = w[w[b + at.KIND] + at.SIZE]
    w[w[at.COUNTS] + r * w[at.SIZES] + (length - 1 - w[b + at.ITERATION]) % size] -= 1


def next_end(s: State, r: int) -> None:
    """Find the iteration in which the first member is done."""
    w, b = s.w, at.IO + r * at.WIDTH
    m, soonest = w[at.MEMBERS] + r * w[at.SLOTS], at.END
    for i in range(m, m + w[b + at.DECODES]):
        soonest = min(soonest, w[w[at.ENDS] + i])
    w[b + at.NEXT_END] = soonest


def preempt(s: State, r: int) -> None:
    """The youngest prompt under way, else the youngest member, loses its memory and waits before all others."""
    w, b = s.w, at.IO + r * at.WIDTH
    k, m = w[b + at.KIND], w[at.MEMBERS] + r * w[at.SLOTS]
    if w[b + at.PARTIAL]:
        w[b + at.PARTIAL] -= 1
        place = m + w[b + at.PARTIAL]
        request = w[w[at.PARTIALS] + place]
        w[b + at.FREE] += w[w[at.HELD] + place]
    else:
        place = m + w[b + at.DECODES] - 1
        request = w[place]
        s.whole[at.PAUSED][request] = w[b + at.LAST] + 1
        if w[b + at.FRESH_ONES]:
            w[b + at.FRESH_ONES] -= 1
            s.whole[at.PAUSED][request] = w[w[at.JOINED] + m + w[b + at.FRESH_ONES]] + 1
        s.short[at.GENERATED][request] = s.short[at.OUTPUT][request] - (w[w[at.ENDS] + place] - w[b + at.ITERATION])
        length = s.short[at.PROMPT][request] + s.short[at.GENERATED][request]
        leave(s, r, length)
        next_end(s, r)
        w[b + at.FREE] += w[k + at.STATE] - (-(length - 1) // w[k + at.SIZE])
    s.short[at.PREEMPTIONS][request] += 1
    w[b + at.PREEMPTED] += 1
    s.short[at.REMAINING][request] = s.short[at.PROMPT][request] + s.short[at.GENERATED][request]
    s.whole[at.BEHIND][request] = w[b + at.HEAD]
    if not w[b + at.WAITING]:
        w[b + at.TAIL] = request
        s.whole[at.BEHIND][request] = -1
    w[b + at.HEAD] = request
    w[b + at.WAITING] += 1
