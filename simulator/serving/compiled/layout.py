"""Where each number of a compiled fleet lies in its arrays.

Few arrays of whole numbers, so that one function can be compiled for all that happens; places in them have names.
"""

from typing import Any, NamedTuple

# The run, at the beginning of `State.w`. Lengths of buffers are in rows; `HANDED` are the rows after which a log is
# handed over, and `MARK` the gaps that were noted when it had as many, less than 0 before.
NOW, NUMBER, NEXT, STOP, FRESH, WAY, TURN, LEAST, LEAPS, SILENT, MOST, HEAP = range(12)
ROWS, GAPS, APART, STRETCHES, PAUSES, ASKED, SHUT, PIECES, ANSWERED, ANSWER = range(12, 22)
SLOTS, SIZES, REPLICAS, HANDED, MARK = range(22, 27)
# Where the other parts of `State.w` begin: what replicas have many of, `SLOTS` or `SIZES` places each, and buffers.
OUTSTANDING, COUNTS, MEMBERS, LOG, GAP_ROWS, APART_ROWS, STRETCH_ROWS, PAUSE_ROWS = range(27, 35)
# How far behind the place of a member those of other columns of as many places are: the iteration after which it is
# done; the prompt under way, its blocks, the tokens of it that the iteration works on; last tokens of members that
# joined since.
ENDS, PARTIALS, HELD, WORKED, JOINED = range(35, 40)
IO = 40

# A replica: `WIDTH` numbers behind the first `IO`.
DECODES, CONTEXT, ITERATION, LAST, FRESH_ONES, PARTIAL, WAITING, HEAD, TAIL, FREE = range(10)
START, COUNT, FIRST, GROWTH, LINE_OF, LINE_LIMIT, LINE_BASE, LINE_SLOPE, BLOCKED = range(10, 19)
IDLE, DUE, TOKENS, ENDED, CHUNKS, USED, QUEUED, LOGGED, BUSY, PREEMPTED, NEXT_END = range(19, 30)
KIND = 30
"""Where in `State.w` its kind is."""
WIDTH = 31

# What replicas of one kind have in common; the last ones are where its tables begin: of rows, of rows that give a
# token, of (up to, base, slope) of decodes, and in `State.price`. Ticks that are not known yet are less than 0.
SIZE, BLOCKS, STATE, WATERMARK, LONGEST, SEQUENCES, BUDGET, HOST, HOST_EACH, PRICED = range(10)
BODY, ENDING, LINES, PRICE = range(10, 14)
KINDS = 14

# Attention of prompts in closed form: `PRICES` numbers of `State.price` for each kind.
HEADS, QUERIES, CORES, BLOCK, KEY, TAIL_SHARE, CUTS, ROW, ROW_APART, TOKEN, SCORE = range(11)
EXPAND, SCALE, FOUR, QUARTER = range(11, 15)
PRICES = 15

SEGMENTS = 6
"""Lines of the attention of decodes that are kept for a number of sequences."""
COLUMNS = 12
"""Numbers of a row of the log: its replica before those of `Record`."""
EVENT = 3
"""Numbers of an event: tick, order within it, and what is due: a replica, or one of these."""
ARRIVAL, ENTER = -1, -2

# Columns of `State.whole` and of `State.short`, by request; `PAUSED` is when a preempted one got its last token, and 1
# more; 0: never. What waits has not finished: until then `FINISH` is the request that waits `BEHIND` it.
ARRIVED, SCHEDULED, FIRST_TOKEN, FINISH, PAUSED = range(5)
BEHIND = FINISH
PROMPT, OUTPUT, REMAINING, GENERATED, PREEMPTIONS, REPLICA, STATUS = range(7)

# Why `advance` comes back.
DONE, FULL, TOO_LONG, ASK_ROWS, ASK_LINE, ASK_PROMPT = range(6)

END = 1 << 62
"""The tick that the clock does not reach."""
MOST_TICKS = 4e18
"""Ticks above which whole numbers of a machine would no longer hold sums."""
BEGINS = 1 << 60
"""Added to the order of what begins, after all that ends in the same tick."""
IN_A_ROW = 1 << 12
"""Iterations after which an event is made all the same."""
AFTER_END, BEFORE, AGAIN = range(3)
"""How `iterate` begins: an iteration has ended, or not, or one is under way whose ticks were asked for."""


class State(NamedTuple):
    """Arrays, as few as can be: each is handed to every function of `kernel`."""

    w: Any
    """Whole numbers of the run, its replicas, their kinds, and buffers."""
    heap: Any
    """Events that are due."""
    price: Any
    """Attention of prompts in closed form, by kind."""
    whole: Any
    """Requests: columns of 64 bits."""
    short: Any
    """Requests: columns of 32 bits."""
