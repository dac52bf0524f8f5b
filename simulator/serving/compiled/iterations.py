"""Iterations, one after the other, and what they leave: what `Batch` and `Record` do, over arrays."""

from simulator.results.serving.service import FINISHED
from simulator.serving.compiled import layout as at
from simulator.serving.compiled.admission import admit, decide
from simulator.serving.compiled.arrivals import lasts
from simulator.serving.compiled.decodes import join, leap, leave, next_end, preempt
from simulator.serving.compiled.events import full, push
from simulator.serving.compiled.layout import State
from simulator.serving.compiled.prices import line, prompts
from simulator.serving.workload.generate import NEVER


def iterate(s: State, r: int, stage: int) -> int:
    """Begin an iteration now and those that follow until something is due; why to come back, 0 for no reason."""
    w, b = s.w, at.IO + r * at.WIDTH
    k, now = w[b + at.KIND], w[at.NOW]
    c, size = w[at.COUNTS] + r * w[at.SIZES], w[k + at.SIZE]
    for left in range(at.IN_A_ROW, 0, -1):
        if stage == at.AFTER_END:
            complete(s, r, now)
            if w[at.HEAP] and s.heap[0] <= now:
                w[b + at.DUE] = push(s, now, at.BEGINS, r)
                return 0
        closed = stage == at.AGAIN and w[at.SHUT] == 1
        need = w[c + -w[b + at.ITERATION] % size] if w[b + at.DECODES] else 0
        while need > w[b + at.FREE]:
            preempt(s, r)
            closed = True
            need = w[c + -w[b + at.ITERATION] % size] if w[b + at.DECODES] else 0
        n = w[b + at.DECODES]
        closed = closed and (n > 0 or w[b + at.PARTIAL] > 0)
        stage, pieces = at.AFTER_END, 0
        if w[b + at.PARTIAL] or w[b + at.WAITING]:
            pieces = decide(s, r, need, closed)
            w[b + at.BLOCKED] = int(not pieces and not closed)
        else:
            w[b + at.BLOCKED] = 0
        if not pieces and not n:
            if w[b + at.PARTIAL] > 1:  # they keep each other from the memory they need
                preempt(s, r)
                stage = at.BEFORE
                continue
            w[b + at.COUNT], w[b + at.DUE], w[b + at.IDLE] = 0, -1, 1
            return 0
        said = price_of(s, r, pieces)
        if said:
            w[at.ASKED], w[at.SHUT], w[at.PIECES] = r, int(closed), pieces
            return said
        ticks = w[at.ANSWER]
        if pieces:
            admit(s, r, pieces, now)
        w[b + at.CHUNKS], w[b + at.QUEUED] = pieces, w[b + at.WAITING]
        w[b + at.USED] = w[k + at.BLOCKS] - w[b + at.FREE]
        settled = not w[b + at.BLOCKED] or need <= w[b + at.FREE]
        w[b + at.FREE] -= need
        w[b + at.START], w[b + at.COUNT], w[b + at.FIRST] = now, 1, ticks
        w[b + at.GROWTH] = w[b + at.LINE_SLOPE] * n
        if not pieces and settled and not closed and w[at.LEAPS]:
            count = leap(s, r, need)
            if 0.5 * count * count * w[b + at.GROWTH] + 1.0 * count * ticks > at.MOST_TICKS:
                return at.TOO_LONG
            w[b + at.COUNT] = count
            ticks = lasts(ticks, w[b + at.GROWTH], count)
        now += ticks
        if now >= at.END:
            return at.TOO_LONG
        if left == 1 or (w[at.HEAP] and s.heap[0] <= now) or full(s):
            break
        w[at.NUMBER] += 1
        w[at.NOW] = now
    w[b + at.DUE] = push(s, now, 0, r)
    return 0


def price_of(s: State, r: int, pieces: int) -> int:
    """Ticks of an iteration into `ANSWER`; what has to be asked for first, 0 for nothing."""
    w, b = s.w, at.IO + r * at.WIDTH
    k, n, m = w[b + at.KIND], w[b + at.DECODES], w[at.MEMBERS] + r * w[at.SLOTS]
    tokens = ended = 0
    waits = w[b + at.HEAD]
    for i in range(m, m + pieces):
        if i < m + w[b + at.PARTIAL]:
            request = w[w[at.PARTIALS] + i]
        else:
            request, waits = waits, s.whole[at.BEHIND][waits]
        tokens += w[w[at.WORKED] + i]
        ended += s.short[at.REMAINING][request] == w[w[at.WORKED] + i]
    w[b + at.TOKENS], w[b + at.ENDED] = tokens, ended
    body, ending = w[w[k + at.BODY] + n + tokens], w[w[k + at.ENDING] + n + ended]
    if body < 0 or ending < 0:
        return at.ASK_ROWS
    reading = 0.0
    if n:
        if not line(s, r):
            return at.ASK_LINE
        reading = 1.0 * w[b + at.LINE_SLOPE] * w[b + at.CONTEXT] + w[b + at.LINE_BASE]
        if reading > at.MOST_TICKS:
            return at.TOO_LONG
    ticks = 0
    if pieces:
        ticks = prompts(s, r, pieces)
        if ticks < 0:
            return at.ASK_PROMPT if ticks == -1 else at.TOO_LONG
    if n:
        ticks += w[b + at.LINE_BASE] + w[b + at.LINE_SLOPE] * w[b + at.CONTEXT]
    host = w[k + at.HOST] + w[k + at.HOST_EACH] * (n + pieces)
    w[at.ANSWER] = ticks + host + body + ending
    return 0


def complete(s: State, r: int, now: int) -> None:
    """The iteration, or the stretch, is written down, tokens are out, prompts are done, requests finish."""
    w, b = s.w, at.IO + r * at.WIDTH
    count, decoding = w[b + at.COUNT], w[b + at.DECODES]
    if not w[at.SILENT]:
        note(s, r, now)
    if decoding:
        w[b + at.ITERATION] += count
        w[b + at.CONTEXT] += count * decoding
        w[b + at.LAST] = now
        w[b + at.FRESH_ONES] = 0
        if w[b + at.NEXT_END] <= w[b + at.ITERATION]:
            finish_members(s, r, now)
    w[b + at.COUNT] = 0
    m, pieces, kept = w[at.MEMBERS] + r * w[at.SLOTS], w[b + at.CHUNKS], 0
    w[b + at.CHUNKS] = 0
    if not pieces:
        return
    partial = w[b + at.PARTIAL]
    for i in range(m, m + partial):
        request = w[w[at.PARTIALS] + i]
        if i < m + pieces:
            s.short[at.REMAINING][request] -= w[w[at.WORKED] + i]
        if s.short[at.REMAINING][request]:
            w[w[at.PARTIALS] + m + kept], w[w[at.HELD] + m + kept] = request, w[w[at.HELD] + i]
            kept += 1
        else:
            prompt_done(s, r, request, w[w[at.HELD] + i], now)
    w[b + at.PARTIAL] = kept


def note(s: State, r: int, now: int) -> None:
    """Write the iteration down as `Record.note` does."""
    w, b = s.w, at.IO + r * at.WIDTH
    count, start, first, n = w[b + at.COUNT], w[b + at.START], w[b + at.FIRST], w[b + at.DECODES]
    row = w[at.LOG] + w[at.ROWS] * at.COLUMNS
    w[at.ROWS] += 1
    w[row], w[row + 1], w[row + 2], w[row + 3], w[row + 4] = r, start, count, first, w[b + at.GROWTH]
    w[row + 5], w[row + 6], w[row + 7] = n, w[b + at.TOKENS], w[b + at.CHUNKS]
    w[row + 8], w[row + 9] = w[b + at.CONTEXT] if n else 0, w[b + at.USED]
    w[row + 10], w[row + 11] = w[b + at.QUEUED], w[b + at.ENDED]
    w[b + at.LOGGED] += 1
    if count > 1:
        width = 6 + w[at.SIZES]
        place = w[at.STRETCH_ROWS] + w[at.STRETCHES] * width
        w[at.STRETCHES] += 1
        w[place], w[place + 1], w[place + 2] = r, count, first
        w[place + 3], w[place + 4] = w[b + at.GROWTH], w[b + at.USED]
        w[place + 5] = w[b + at.ITERATION]
        for i in range(w[at.SIZES]):
            w[place + 6 + i] = w[w[at.COUNTS] + r * w[at.SIZES] + i]
    w[b + at.BUSY] += now - start
    fresh = w[b + at.FRESH_ONES]
    if n and (fresh or w[b + at.LAST] != start):
        place = w[at.APART] * 2
        w[at.APART] += 1
        w[w[at.APART_ROWS] + place], w[w[at.APART_ROWS] + place + 1] = r, w[b + at.LOGGED] - 1
        if n > fresh:
            gap(s, r, start + first - w[b + at.LAST], n - fresh)
        for i in range(w[at.MEMBERS] + r * w[at.SLOTS], w[at.MEMBERS] + r * w[at.SLOTS] + fresh):
            gap(s, r, start + first - w[w[at.JOINED] + i], 1)
    if w[b + at.LOGGED] >= w[at.HANDED]:
        w[at.MARK] = w[at.GAPS]


def gap(s: State, r: int, ticks: int, count: int) -> None:
    """So many requests waited so long for a token."""
    w = s.w
    place = w[at.GAP_ROWS] + w[at.GAPS] * 3
    w[at.GAPS] += 1
    w[place], w[place + 1], w[place + 2] = r, ticks, count


def finish_members(s: State, r: int, now: int) -> None:
    """Members whose last iteration is over leave."""
    w, b = s.w, at.IO + r * at.WIDTH
    k, m, iteration, n, kept = (
        w[b + at.KIND],
        w[at.MEMBERS] + r * w[at.SLOTS],
        w[b + at.ITERATION],
        w[b + at.DECODES],
        0,
    )
    for i in range(m, m + n):
        request = w[i]
        if w[w[at.ENDS] + i] > iteration:
            w[m + kept], w[w[at.ENDS] + m + kept] = request, w[w[at.ENDS] + i]
            kept += 1
            continue
        s.short[at.GENERATED][request] = s.short[at.OUTPUT][request]
        tokens = s.short[at.PROMPT][request] + s.short[at.OUTPUT][request]
        leave(s, r, tokens)
        finish(s, r, request, now)
        w[b + at.FREE] += w[k + at.STATE] - (-(tokens - 1) // w[k + at.SIZE])
    next_end(s, r)


def finish(s: State, r: int, request: int, now: int) -> None:
    """A request has all its tokens."""
    s.w[s.w[at.OUTSTANDING] + r] -= 1
    s.whole[at.FINISH][request], s.short[at.STATUS][request] = now, FINISHED


def prompt_done(s: State, r: int, request: int, held: int, now: int) -> None:
    """A prompt is in the cache and its next token is out."""
    w = s.w
    s.short[at.GENERATED][request] += 1
    if s.whole[at.FIRST_TOKEN][request] == NEVER:
        s.whole[at.FIRST_TOKEN][request] = now
    else:
        since = s.whole[at.PAUSED][request] - 1
        if since >= 0 and since < now:
            place = w[at.PAUSE_ROWS] + w[at.PAUSES] * 3
            w[at.PAUSES] += 1
            w[place], w[place + 1], w[place + 2] = request, since, now
            if not w[at.SILENT]:
                gap(s, r, now - since, 1)
        s.whole[at.PAUSED][request] = 0
    if s.short[at.GENERATED][request] == s.short[at.OUTPUT][request]:
        finish(s, r, request, now)
        w[at.IO + r * at.WIDTH + at.FREE] += held
    else:
        join(s, r, request, now)
