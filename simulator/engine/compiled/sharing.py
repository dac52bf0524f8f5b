"""Activities on resources: `fluid.Fluid` over arrays, call by call."""

from math import floor

from simulator.engine.compiled import layout as at
from simulator.engine.compiled.layout import State
from simulator.engine.compiled.queue import push
from simulator.engine.compiled.record import touch


def work(s: State, activity: int, slot: int, lane: int, label: int) -> None:
    """Start an activity for a lane."""
    s.w[s.w[at.R_NEXT] + lane], s.w[s.w[at.R_LAST] + lane] = (
        s.w[s.w[at.PHASE_START] + activity],
        s.w[s.w[at.PHASE_START] + activity + 1],
    )
    s.w[s.w[at.R_NEEDS] + lane] = s.w[s.w[at.NEEDS] + s.w[s.w[at.R_NEXT] + lane]]
    s.w[s.w[at.R_SLOT] + lane], s.w[s.w[at.R_LABEL] + lane] = slot, label
    s.w[s.w[at.R_END] + lane], s.w[s.w[at.R_TIMER] + lane], s.w[s.w[at.R_DIRTY] + lane] = at.ENDED, -1, 0
    s.w[s.w[at.R_MADE] + lane] += 1
    go_on(s, lane)


def go_on(s: State, lane: int) -> None:
    """Begin the next phase that lasts, or finish."""
    w = s.w
    while s.w[s.w[at.R_NEXT] + lane] < s.w[s.w[at.R_LAST] + lane]:
        phase = s.w[s.w[at.R_NEXT] + lane]
        s.w[s.w[at.R_NEXT] + lane] = phase + 1
        s.w[s.w[at.R_NEEDS] + lane] = s.w[s.w[at.NEEDS] + phase]
        if s.w[s.w[at.LATENCY] + phase]:
            push(s, w[at.NOW] + s.w[s.w[at.LATENCY] + phase], at.JOINING, lane)
            w[at.EVENTS] += 1
            return
        if s.w[s.w[at.WORK] + phase]:
            join(s, lane, s.w[s.w[at.WORK] + phase])
            return
    finish(s, lane)


def joined(s: State, lane: int) -> None:
    """A latency is over."""
    ticks = s.w[s.w[at.WORK] + s.w[s.w[at.R_NEXT] + lane] - 1]
    if ticks:
        join(s, lane, ticks)
    else:
        go_on(s, lane)


def finish(s: State, lane: int) -> None:
    """An activity has done its work: end the slot."""
    slot = s.w[s.w[at.R_SLOT] + lane]
    s.w[s.w[at.END] + slot] = s.w[at.NOW]
    push(s, s.w[at.NOW], at.SLOT, slot)


def join(s: State, lane: int, ticks: int) -> None:
    """Start to work."""
    needs, scarce = s.w[s.w[at.R_NEEDS] + lane], False
    touch(s, needs)
    s.w[s.w[at.R_WHOLE] + lane], s.w[s.w[at.R_EXACT] + lane], s.w[s.w[at.R_SINCE] + lane] = ticks, 1, s.w[at.NOW]
    s.f[s.w[at.R_SPEED] + lane], s.w[s.w[at.R_END] + lane] = 0.0, at.NEVER
    for use in range(s.w[s.w[at.USE_START] + needs], s.w[s.w[at.USE_START] + needs + 1]):
        resource = s.w[s.w[at.USE_RESOURCE] + use]
        s.f[s.w[at.ASKED] + resource] += s.f[s.w[at.USE_RATE] + use]
        if s.f[s.w[at.ASKED] + resource] > s.f[s.w[at.MOST] + resource]:
            scarce = True
    node = lane * s.w[at.WIDTH]
    for entry in range(s.w[s.w[at.ENTRY_START] + needs], s.w[s.w[at.ENTRY_START] + needs + 1]):
        enter(s, s.w[s.w[at.ENTRY_RESOURCE] + entry], node, entry)
        node += 1
    if not scarce:
        s.f[s.w[at.R_SPEED] + lane], s.w[s.w[at.R_END] + lane] = 1.0, s.w[s.w[at.R_SINCE] + lane] + ticks
        watch_one(s, lane)
    elif not s.w[s.w[at.SINGLE] + needs] or not beside_reserved(
        s, s.w[s.w[at.USE_RESOURCE] + s.w[s.w[at.USE_START] + needs]]
    ):
        settle_later(s)
        make_dirty(s, lane)


def enter(s: State, resource: int, node: int, entry: int) -> None:
    """A user more, behind the others."""
    last = s.w[s.w[at.LAST_USER] + resource]
    s.w[s.w[at.ENTRY_OF] + node], s.w[s.w[at.BEFORE] + node], s.w[s.w[at.BEHIND] + node] = entry, last, -1
    if last < 0:
        s.w[s.w[at.FIRST_USER] + resource] = node
    else:
        s.w[s.w[at.BEHIND] + last] = node
    s.w[s.w[at.LAST_USER] + resource] = node


def leave(s: State, lane: int) -> None:
    """Take an activity off its resources; those that it may have slowed must be solved again."""
    needs, node = s.w[s.w[at.R_NEEDS] + lane], lane * s.w[at.WIDTH]
    touch(s, needs)
    for entry in range(s.w[s.w[at.ENTRY_START] + needs], s.w[s.w[at.ENTRY_START] + needs + 1]):
        resource = s.w[s.w[at.ENTRY_RESOURCE] + entry]
        before, behind = s.w[s.w[at.BEFORE] + node], s.w[s.w[at.BEHIND] + node]
        if before < 0:
            s.w[s.w[at.FIRST_USER] + resource] = behind
        else:
            s.w[s.w[at.BEHIND] + before] = behind
        if behind < 0:
            s.w[s.w[at.LAST_USER] + resource] = before
        else:
            s.w[s.w[at.BEFORE] + behind] = before
        node += 1
        if s.w[s.w[at.FIRST_USER] + resource] < 0:
            s.f[s.w[at.ASKED] + resource] = 0.0
            continue
        asked = s.f[s.w[at.ASKED] + resource]
        s.f[s.w[at.ASKED] + resource] = asked - s.f[s.w[at.ENTRY_RATE] + entry]
        if asked > s.f[s.w[at.MOST] + resource] and not beside_reserved(s, resource):
            settle_later(s)
            user = s.w[s.w[at.FIRST_USER] + resource]
            while user >= 0:
                make_dirty(s, user // s.w[at.WIDTH])
                user = s.w[s.w[at.BEHIND] + user]


def beside_reserved(s: State, resource: int) -> bool:
    """Whether a resource has one user beside those that reserved their part of it, which then works with the rest."""
    width = s.w[at.WIDTH]
    only, left = -1, s.f[s.w[at.CAPACITY] + resource]
    node = s.w[s.w[at.FIRST_USER] + resource]
    while node >= 0:
        user = node // width
        needs = s.w[s.w[at.R_NEEDS] + user]
        if not s.w[s.w[at.SINGLE] + needs] or (only >= 0 and not s.w[s.w[at.RESERVED] + needs]):
            return False
        if s.w[s.w[at.RESERVED] + needs]:
            left -= s.f[s.w[at.USE_RATE] + s.w[s.w[at.USE_START] + needs]]
        else:
            only = user
        node = s.w[s.w[at.BEHIND] + node]
    if not (left >= 0.0 and left < s.f[s.w[at.CAPACITY] + resource]):
        return False
    node = s.w[s.w[at.FIRST_USER] + resource]
    while node >= 0:
        user = node // width
        speed = 1.0
        if user == only:
            speed = min(1.0, left / s.f[s.w[at.USE_RATE] + s.w[s.w[at.USE_START] + s.w[s.w[at.R_NEEDS] + user]]])
        if s.f[s.w[at.R_SPEED] + user] != speed:
            touch(s, s.w[s.w[at.R_NEEDS] + user])
            proceed(s, user, speed)
            watch_one(s, user)
        node = s.w[s.w[at.BEHIND] + node]
    return True


def proceed(s: State, lane: int, speed: float) -> None:
    """Book the work done so far and go on at another speed."""
    now = s.w[at.NOW]
    elapsed = now - s.w[s.w[at.R_SINCE] + lane]
    if elapsed:
        if s.w[s.w[at.R_EXACT] + lane] and s.f[s.w[at.R_SPEED] + lane] == 1.0:
            s.w[s.w[at.R_WHOLE] + lane] -= elapsed
        else:
            left = float(s.w[s.w[at.R_WHOLE] + lane]) if s.w[s.w[at.R_EXACT] + lane] else s.f[s.w[at.R_LEFT] + lane]
            s.f[s.w[at.R_LEFT] + lane] = left - (
                elapsed if s.f[s.w[at.R_SPEED] + lane] == 1.0 else s.f[s.w[at.R_SPEED] + lane] * elapsed
            )
            s.w[s.w[at.R_EXACT] + lane] = 0
        s.w[s.w[at.R_SINCE] + lane] = now
    s.f[s.w[at.R_SPEED] + lane] = speed
    left = float(s.w[s.w[at.R_WHOLE] + lane]) if s.w[s.w[at.R_EXACT] + lane] else s.f[s.w[at.R_LEFT] + lane]
    if speed == 1.0:
        ticks = s.w[s.w[at.R_WHOLE] + lane] if s.w[s.w[at.R_EXACT] + lane] else floor(left + 0.5)
        s.w[s.w[at.R_END] + lane] = now + max(0, ticks)
    elif left <= 0:
        s.w[s.w[at.R_END] + lane] = now
    elif left < speed * at.NEVER:
        s.w[s.w[at.R_END] + lane] = now + floor(left / speed + 0.5)
    else:
        s.w[s.w[at.R_END] + lane] = at.NEVER


def settle_later(s: State) -> None:
    """Solve what is about to be made dirty at the end of this instant."""
    w = s.w
    if not w[at.DIRTIES]:
        push(s, w[at.NOW], at.SETTLE, 0)
        w[at.EVENTS] += 1


def make_dirty(s: State, lane: int) -> None:
    """An activity must be solved; each once."""
    w = s.w
    if s.w[s.w[at.R_DIRTY] + lane] != w[at.MARK]:
        place = w[at.DIRTIES]
        if place >= w[at.MOST_DIRTY]:
            w[at.BROKEN] = 1
            return
        s.w[s.w[at.R_DIRTY] + lane] = w[at.MARK]
        s.w[s.w[at.DIRTY] + place], s.w[s.w[at.DIRTY_MADE] + place] = lane, s.w[s.w[at.R_MADE] + lane]
        w[at.DIRTIES] = place + 1


def watch_one(s: State, lane: int) -> None:
    """Set a timer for the end of one phase."""
    s.w[s.w[at.R_TIMER] + lane] = -1
    if s.w[s.w[at.R_END] + lane] < at.NEVER:
        s.w[s.w[at.R_TIMER] + lane] = push(s, s.w[s.w[at.R_END] + lane], at.TIMER_ONE, lane)
        s.w[at.EVENTS] += 1


def ring_one(s: State, lane: int, number: int) -> None:
    """End a phase that is due; void if it was solved again since."""
    if s.w[s.w[at.R_TIMER] + lane] == number:
        end(s, lane)


def ring(s: State, place: int, number: int) -> None:
    """End what is due of a component, and solve what is left of it; void if it was solved again since."""
    left = 0
    for i in range(s.timers[place]):
        lane = s.timers[place + 1 + i]
        if s.w[s.w[at.R_TIMER] + lane] == number:
            if s.w[s.w[at.R_END] + lane] <= s.w[at.NOW]:
                end(s, lane)
            else:
                s.w[s.w[at.LEFT] + left] = lane
                left += 1
    if left:
        settle_later(s)
        for i in range(left):
            make_dirty(s, s.w[s.w[at.LEFT] + i])


def end(s: State, lane: int) -> None:
    """A phase is over."""
    s.w[s.w[at.R_END] + lane] = at.ENDED
    if s.w[s.w[at.R_NEXT] + lane] < s.w[s.w[at.R_LAST] + lane]:
        leave(s, lane)
        go_on(s, lane)
    else:
        finish(s, lane)
        leave(s, lane)
