"""Which prompts an iteration works on: what `Policy.fill` and `Replica.admit` do, over arrays."""

from simulator.serving.compiled import layout as at
from simulator.serving.compiled.layout import State
from simulator.serving.workload.generate import NEVER


def blocks_for(s: State, k: int, request: int, piece: int, held: int) -> int:
    """As `Blocks.blocks_for` where memory is taken piece by piece; `held` blocks are there."""
    total = s.short[at.PROMPT][request] + s.short[at.GENERATED][request] + piece - s.short[at.REMAINING][request]
    blocks: int = s.w[k + at.STATE] - (-total // s.w[k + at.SIZE]) - held
    return blocks


def decide(s: State, r: int, need: int, closed: bool) -> int:
    """Pieces of prompts, as `Policy.fill` chooses them, the first of those under way, the others of those that wait;
    how many."""
    w, b = s.w, at.IO + r * at.WIDTH
    k, m = w[b + at.KIND], w[at.MEMBERS] + r * w[at.SLOTS]
    partial, waiting, size, state = w[b + at.PARTIAL], w[b + at.WAITING], w[k + at.SIZE], w[k + at.STATE]
    budget, room = w[k + at.BUDGET] - w[b + at.DECODES], w[b + at.FREE] - need
    if partial and s.short[at.REMAINING][w[w[at.PARTIALS] + m]] >= budget > 0 and room >= budget // size + 2 + state:
        w[w[at.WORKED] + m] = budget
        return 1
    slots = w[k + at.SEQUENCES] - w[b + at.DECODES] - partial
    most = partial + max(0, min(slots, waiting))
    plenty = room - w[k + at.WATERMARK] >= budget // size + (2 + state) * most
    found = 0
    for i in range(m, m + partial):
        request = w[w[at.PARTIALS] + i]
        piece = min(s.short[at.REMAINING][request], budget)
        if piece <= 0:
            return found
        if not plenty:
            needed = blocks_for(s, k, request, piece, w[w[at.HELD] + i])
            if needed > room:
                before = s.short[at.PROMPT][request] + s.short[at.GENERATED][request] - s.short[at.REMAINING][request]
                piece = min(piece, room * size + (w[w[at.HELD] + i] - state) * size - before)
                if piece <= 0:
                    return found
                needed = room
            room -= needed
        w[w[at.WORKED] + m + found] = piece
        found += 1
        budget -= piece
    if closed or budget <= 0 or slots <= 0 or not waiting:
        return found
    room -= w[k + at.WATERMARK]
    request = w[b + at.HEAD]
    while request >= 0 and budget > 0 and slots > 0:
        piece = min(s.short[at.REMAINING][request], budget)
        if not plenty:
            needed = blocks_for(s, k, request, piece, 0)
            if needed > room:
                break
            room -= needed
        w[w[at.WORKED] + m + found] = piece
        found += 1
        budget -= piece
        slots -= 1
        request = s.whole[at.BEHIND][request]
    return found


def admit(s: State, r: int, pieces: int, now: int) -> None:
    """Take memory for pieces of prompts, and slots for those that start."""
    w, b = s.w, at.IO + r * at.WIDTH
    k, m = w[b + at.KIND], w[at.MEMBERS] + r * w[at.SLOTS]
    for i in range(m, m + pieces):
        if i == m + w[b + at.PARTIAL]:
            request = w[b + at.HEAD]
            w[b + at.HEAD] = s.whole[at.BEHIND][request]
            w[b + at.WAITING] -= 1
            w[b + at.PARTIAL] += 1
            w[w[at.PARTIALS] + i], w[w[at.HELD] + i] = request, 0
            if s.whole[at.SCHEDULED][request] == NEVER:
                s.whole[at.SCHEDULED][request] = now
        more = blocks_for(s, k, w[w[at.PARTIALS] + i], w[w[at.WORKED] + i], w[w[at.HELD] + i])
        if more > 0:
            w[w[at.HELD] + i] += more
            w[b + at.FREE] -= more
