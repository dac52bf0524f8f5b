"""Where each number of a compiled run of a tape lies in its arrays.

Few arrays, so that one function can be compiled for all that happens; places in them have names. An activity under way
is known by its lane, as a lane runs one at a time; the resources that it uses are nodes of lists, `WIDTH` to a lane, in
the order in which users joined.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

# Scalars, at the beginning of `State.w`. `AT` is the place in what must be solved where the run came back to ask.
NOW, NUMBER, HEAP, EVENTS, EXTRA, LANES, DIRTIES = range(7)
SETTLING, AT, MARK, COUNT, SHORT, USED, KEPT = range(7, 14)
KNOWN, SEARCH, WIDTH, RECORDS, INSTANT, TOUCHES, LOGGED = range(14, 21)
ROOM, BROKEN, FRESH, OPERATIONS, MOST_DIRTY, ALL_LANES, MOST_KEPT = range(21, 28)
MOST_ROWS = 28
# Where columns of whole numbers begin in `State.w`: by operation, slot, lane, phase, use, resource, node, what is under
# way (by lane), and room for what must be solved, is known of components, and is written down.
DURATION, WAIT, SEVERAL_START, SEVERAL, SLOT_OF, ACTIVITY, LABEL = range(29, 36)
END, BEGIN, AWAITED, FIRST_WAITING, LAST_WAITING, ABSENT, MEETING = range(36, 43)
LASTS, OP, STOP, OVER, FOLLOWING, PHASE_START, LATENCY = range(43, 50)
WORK, NEEDS, USE_START, USE_RESOURCE, ENTRY_START, ENTRY_RESOURCE, ENTRY_RESERVED = range(50, 57)
SINGLE, RESERVED, FIRST_USER, LAST_USER, RECORDED, TOUCHED_AT, BEFORE = range(57, 64)
BEHIND, ENTRY_OF, R_END, R_SINCE, R_WHOLE, R_EXACT, R_NEXT = range(64, 71)
R_LAST, R_NEEDS, R_TIMER, R_SLOT, R_LABEL, R_MADE, R_DIRTY = range(71, 78)
R_FOUND, R_SEEN, DIRTY, DIRTY_MADE, MEMBERS, SCARCE, VISITED = range(78, 85)
LEFT, PLACES, KEYS, TOUCHED, CARRIED, ROWS = range(85, 91)
# Where columns of real numbers begin in `State.f`.
USE_RATE, ENTRY_RATE, ENTRY_KEPT, CAPACITY, MOST, ASKED, R_SPEED = range(91, 98)
R_LEFT, SPEEDS, BY_LABEL, AMOUNTS = range(98, 102)
SCALARS = 102

TABLE = 1 << 14
"""Places of the table of components that are known."""
ENTRY = 4
"""Numbers of what is due: tick, number, what it is, and whose."""
LANE, SLOT, LANE_ENDED, ALL_ENDED, JOINING, SETTLE, TIMER_ONE, TIMER = range(8)

# Why `advance` comes back.
DONE, PAUSE, FULL, TOO_LONG, ASK, CROWDED, OVERRUN = range(7)

NEVER = 1 << 62
"""The tick that the clock does not reach, as in `tape`."""
ENDED = -1
"""End of what does not work, as in `running`."""


class State(NamedTuple):
    """All of a run."""

    w: Ints
    f: Floats
    heap: Ints
    """What is due, in order."""
    timers: Ints
    """How many activities a timer ends, and these, one timer after the other; the second half is for sorting."""
