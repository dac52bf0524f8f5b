"""Requests that come, the router, and the queue: what `Fleet` and `Replica.submit` do, over arrays."""

from math import sqrt
from typing import Any

from simulator.results.serving.service import REJECTED
from simulator.serving.compiled import layout as at
from simulator.serving.compiled.decodes import grown
from simulator.serving.compiled.events import push
from simulator.serving.compiled.layout import State


def come(s: State) -> None:
    """Requests of this tick come; the next one is waited for."""
    w = s.w
    now = w[at.NOW]
    first, stop = w[at.NEXT], w[at.NEXT] + 1
    while stop < w[at.STOP] and s.whole[at.ARRIVED][stop] + w[at.WAY] <= now:
        stop += 1
    w[at.NEXT] = stop
    if w[at.REPLICAS] == 1:
        for request in range(first, stop):
            route(s, request)
    alone = w[at.HEAP] == 0 or s.heap[0] > now
    if stop < w[at.STOP]:
        push(s, s.whole[at.ARRIVED][stop] + w[at.WAY], 0, at.ARRIVAL)
    if w[at.REPLICAS] > 1:
        if alone:
            for request in range(first, stop):
                route(s, request)
        else:
            w[at.FRESH] = first
            push(s, now, 0, at.ENTER)


def route(s: State, request: int) -> None:
    """A request joins the queue of a replica, or is rejected because it could never run."""
    w = s.w
    chosen, many = 0, w[at.REPLICAS]
    if many > 1:
        chosen = (w[at.TURN] + 1) % many
        if w[at.LEAST]:
            chosen = least(w, chosen, many)
        w[at.TURN] = chosen
    b = at.IO + chosen * at.WIDTH
    k = w[b + at.KIND]
    tokens = s.short[at.PROMPT][request] + s.short[at.OUTPUT][request]
    blocks = w[k + at.STATE] - (-tokens // w[k + at.SIZE]) + w[k + at.WATERMARK]
    if tokens > w[k + at.LONGEST] or blocks > w[k + at.BLOCKS]:
        s.short[at.STATUS][request] = REJECTED
        return
    w[w[at.OUTSTANDING] + chosen] += 1
    s.short[at.REPLICA][request] = chosen
    s.whole[at.BEHIND][request] = -1
    if w[b + at.WAITING]:
        s.whole[at.BEHIND][w[b + at.TAIL]] = request
    else:
        w[b + at.HEAD] = request
    w[b + at.TAIL] = request
    w[b + at.WAITING] += 1
    if w[b + at.IDLE]:
        w[b + at.IDLE] = 0
        w[b + at.DUE] = push(s, w[at.NOW], at.BEGINS, chosen)
    elif w[at.LEAPS] and w[b + at.COUNT] > 1 and not w[b + at.BLOCKED]:
        cut(s, chosen)


def least(w: Any, first: int, many: int) -> int:
    """The replica with the fewest unfinished requests; of equals the first one from `first` on, all round."""
    place = w[at.OUTSTANDING]
    found, few = first, w[place + first]
    for i in range(first + 1, many):
        if w[place + i] < few:
            found, few = i, w[place + i]
    for i in range(first):
        if w[place + i] < few:
            found, few = i, w[place + i]
    return found


def lasts(first: int, growth: int, count: int) -> int:
    """As `Stretch.lasts`."""
    return count * first + growth * (count * (count - 1) // 2)


def cut(s: State, r: int) -> None:
    """End the stretch at the first boundary from now on, as `Batch.cut` does."""
    w, b = s.w, at.IO + r * at.WIDTH
    first, growth, all_of_it = w[b + at.FIRST], w[b + at.GROWTH], w[b + at.COUNT]
    elapsed = w[at.NOW] - w[b + at.START]
    if growth:
        half = first / growth - 0.5
        count = int(sqrt(half * half + 2.0 * elapsed / growth) - half)
        count = max(0, min(count, all_of_it))
        while count > 0 and lasts(first, growth, count) > elapsed:
            count -= 1
        while count < all_of_it and lasts(first, growth, count + 1) <= elapsed:
            count += 1
    else:
        count = min(all_of_it, elapsed // first)
    if count == 0 or lasts(first, growth, count) < elapsed:
        count += 1
    if count < all_of_it:
        w[b + at.FREE] += grown(s, r, all_of_it) - grown(s, r, count)
        w[b + at.COUNT] = count
        w[b + at.DUE] = push(s, w[b + at.START] + lasts(first, growth, count), 0, r)
