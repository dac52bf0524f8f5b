"""What an iteration takes, from tables and closed forms; what they do not hold is asked for.

Everything is whole numbers but the attention of prompts, which takes the same operations of the same library in the
same order as `Attention.prompt`, so that it gives the same tick.
"""

from math import pow

from simulator.serving.compiled import layout as at
from simulator.serving.compiled.layout import State


def attention(s: State, r: int, pieces: int) -> float:
    """Ticks of the attention of pieces of prompts in one kernel, in the operations of `Attention.prompt` and `prompts`;
    those that wait follow those under way."""
    w, price, b = s.w, s.price, at.IO + r * at.WIDTH
    p, m = w[w[b + at.KIND] + at.PRICE], w[at.MEMBERS] + r * w[at.SLOTS]
    rows, heads, waits = int(price[p + at.QUERIES]), price[p + at.HEADS], w[b + at.HEAD]
    work = longest = memory = 0.0
    total = behind = 0
    for i in range(m, m + pieces):
        if i < m + w[b + at.PARTIAL]:
            request = w[w[at.PARTIALS] + i]
        else:
            request, waits = waits, s.whole[at.BEHIND][waits]
        chunk = w[w[at.WORKED] + i]
        before = s.short[at.PROMPT][request] + s.short[at.GENERATED][request] - s.short[at.REMAINING][request]
        blocks = -(-chunk // rows)
        keys = blocks * before + rows * (blocks * (blocks + 1)) // 2 - (blocks * rows - chunk)
        walk = price[p + at.BLOCK] + (chunk + before) * price[p + at.KEY]
        if price[p + at.CUTS]:
            walk /= min(price[p + at.CUTS], max(1, int(price[p + at.CORES]) // (blocks * int(heads))))
        work += heads * (blocks * price[p + at.BLOCK] + keys * price[p + at.KEY])
        memory += chunk * price[p + at.ROW] + (chunk + before) * (price[p + at.TOKEN] + chunk * price[p + at.SCORE])
        longest = walk if walk > longest else longest
        total += chunk
        behind += before
    compute = work / price[p + at.CORES] + price[p + at.TAIL_SHARE] * longest
    compute = longest if longest > compute else compute
    walk = pow(pow(compute, price[p + at.FOUR]) + pow(memory, price[p + at.FOUR]), price[p + at.QUARTER])
    seconds = walk + total * price[p + at.ROW_APART]
    if pieces == 1:
        seconds += behind * price[p + at.EXPAND]
    ticks: float = seconds * price[p + at.SCALE]
    return ticks


def prompts(s: State, r: int, pieces: int) -> int:
    """The same in whole ticks, or as Python answered; less than 0 where it has to be asked, -2 where it is too long."""
    w = s.w
    k = w[at.IO + r * at.WIDTH + at.KIND]
    if w[at.ANSWERED]:
        w[at.ANSWERED] = 0
        answer: int = w[at.ANSWER]
        return answer
    if not w[k + at.PRICED] or (pieces > 1 and s.price[w[k + at.PRICE] + at.EXPAND] > 0.0):
        return -1
    found = attention(s, r, pieces)
    return round(found) if found < at.MOST_TICKS else -2


def line(s: State, r: int) -> bool:
    """Have the line of the decodes at hand; whether it is known."""
    w, b = s.w, at.IO + r * at.WIDTH
    n, context = w[b + at.DECODES], w[b + at.CONTEXT]
    if n == w[b + at.LINE_OF] and context <= w[b + at.LINE_LIMIT]:
        return True
    place = w[w[b + at.KIND] + at.LINES] + n * at.SEGMENTS * 3
    for i in range(place, place + 3 * at.SEGMENTS, 3):
        if w[i] < 0:
            return False
        if context <= w[i]:
            w[b + at.LINE_OF], w[b + at.LINE_LIMIT] = n, w[i]
            w[b + at.LINE_BASE], w[b + at.LINE_SLOPE] = w[i + 1], w[i + 2]
            return True
    return False
