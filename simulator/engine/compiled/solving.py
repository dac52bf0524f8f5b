"""Components that changed: found, and given the speeds that are known of them."""

from simulator.engine.compiled import layout as at
from simulator.engine.compiled.layout import State
from simulator.engine.compiled.queue import push
from simulator.engine.compiled.record import touch
from simulator.engine.compiled.sharing import proceed, watch_one


def settle(s: State) -> int:
    """Solve every component that changed; less than all where Python must answer first."""
    w = s.w
    w[at.SETTLING] = 1
    while w[at.AT] < w[at.DIRTIES]:
        place = w[at.AT]
        lane = s.w[s.w[at.DIRTY] + place]
        if (
            s.w[s.w[at.DIRTY_MADE] + place] == s.w[s.w[at.R_MADE] + lane]
            and s.w[s.w[at.R_SEEN] + lane] != w[at.MARK]
            and s.w[s.w[at.R_END] + lane] >= 0
        ):
            component(s, lane)
            said = solve(s)
            if said:
                return said
            if w[at.COUNT] > 1:
                for i in range(w[at.COUNT]):
                    s.w[s.w[at.R_SEEN] + s.w[s.w[at.MEMBERS] + i]] = w[at.MARK]
        w[at.AT] = place + 1
    w[at.AT], w[at.DIRTIES], w[at.SETTLING] = 0, 0, 0
    w[at.MARK] += 1
    return 0


def component(s: State, lane: int) -> None:
    """All activities connected with one through scarce resources, in the order of discovery, and these."""
    w, needs = s.w, s.w[s.w[at.R_NEEDS] + lane]
    s.w[s.w[at.MEMBERS] + 0], w[at.COUNT], w[at.SHORT] = lane, 1, 0
    if not s.w[s.w[at.SINGLE] + needs]:
        connected(s)
        return
    resource = s.w[s.w[at.ENTRY_RESOURCE] + s.w[s.w[at.ENTRY_START] + needs]]
    if s.f[s.w[at.ASKED] + resource] <= s.f[s.w[at.MOST] + resource]:
        return
    node = s.w[s.w[at.FIRST_USER] + resource]
    while node >= 0:
        user = node // w[at.WIDTH]
        if not s.w[s.w[at.SINGLE] + s.w[s.w[at.R_NEEDS] + user]]:
            w[at.COUNT] = 1
            connected(s)
            return
        if user != lane:
            s.w[s.w[at.MEMBERS] + w[at.COUNT]] = user
            w[at.COUNT] += 1
        node = s.w[s.w[at.BEHIND] + node]
    s.w[s.w[at.SCARCE] + 0], w[at.SHORT] = resource, 1


def connected(s: State) -> None:
    """The same in general, from the first member on."""
    w = s.w
    w[at.SEARCH] += 1
    search, width = w[at.SEARCH], w[at.WIDTH]
    s.w[s.w[at.R_FOUND] + s.w[s.w[at.MEMBERS] + 0]] = search
    i = 0
    while i < w[at.COUNT]:
        needs = s.w[s.w[at.R_NEEDS] + s.w[s.w[at.MEMBERS] + i]]
        for entry in range(s.w[s.w[at.ENTRY_START] + needs], s.w[s.w[at.ENTRY_START] + needs + 1]):
            resource = s.w[s.w[at.ENTRY_RESOURCE] + entry]
            if (
                s.w[s.w[at.VISITED] + resource] != search
                and s.f[s.w[at.ASKED] + resource] > s.f[s.w[at.MOST] + resource]
            ):
                s.w[s.w[at.VISITED] + resource] = search
                s.w[s.w[at.SCARCE] + w[at.SHORT]] = resource
                w[at.SHORT] += 1
                node = s.w[s.w[at.FIRST_USER] + resource]
                while node >= 0:
                    user = node // width
                    if s.w[s.w[at.R_FOUND] + user] != search:
                        s.w[s.w[at.R_FOUND] + user] = search
                        s.w[s.w[at.MEMBERS] + w[at.COUNT]] = user
                        w[at.COUNT] += 1
                    node = s.w[s.w[at.BEHIND] + node]
        i += 1


def solve(s: State) -> int:
    """Give each activity of a component its speed, and set a timer for the first to end; ASK where it is not known."""
    w = s.w
    count, place = w[at.COUNT], -1
    if w[at.USED] + count + 1 > len(s.timers) // 2:
        compact(s)
        if 2 * (w[at.USED] + count + 1) > len(s.timers) // 2:
            return at.CROWDED
    if w[at.SHORT]:
        place = known(s)
        if place < 0:
            return at.ASK
    first = at.NEVER
    for i in range(count):
        lane = s.w[s.w[at.MEMBERS] + i]
        speed = s.f[s.w[at.SPEEDS] + place + 1 + i] if place >= 0 else 1.0
        if speed != s.f[s.w[at.R_SPEED] + lane]:
            touch(s, s.w[s.w[at.R_NEEDS] + lane])
            proceed(s, lane, speed)
        first = min(first, s.w[s.w[at.R_END] + lane])
    if count == 1:
        watch_one(s, s.w[s.w[at.MEMBERS] + 0])
        return 0
    number = -1
    if first < at.NEVER:
        number = push(s, first, at.TIMER, w[at.USED])
        w[at.EVENTS] += 1
        s.timers[w[at.USED]] = count
        for i in range(count):
            s.timers[w[at.USED] + 1 + i] = s.w[s.w[at.MEMBERS] + i]
        w[at.USED] += count + 1
    for i in range(count):
        s.w[s.w[at.R_TIMER] + s.w[s.w[at.MEMBERS] + i]] = number
    return 0


def hashed(s: State) -> int:
    """A number made of those of the members of a component."""
    found = 17
    for i in range(s.w[at.COUNT]):
        found = (found * 1000003 + s.w[s.w[at.R_NEEDS] + s.w[s.w[at.MEMBERS] + i]] + 1) % 2305843009213
    return found


def known(s: State) -> int:
    """Where the speeds of a component are, -1 where they are not known."""
    size, count = at.TABLE, s.w[at.COUNT]
    slot = hashed(s) % size
    while s.w[s.w[at.PLACES] + slot] >= 0:
        place: int = s.w[s.w[at.PLACES] + slot]
        same = s.w[s.w[at.KEYS] + place] == count
        for i in range(count):
            if not same:
                break
            same = s.w[s.w[at.KEYS] + place + 1 + i] == s.w[s.w[at.R_NEEDS] + s.w[s.w[at.MEMBERS] + i]]
        if same:
            return place
        slot = (slot + 1) % size
    return -1


def learn(s: State) -> int:
    """A place for the speeds of a component, of which few are forgotten: all, where there is no room."""
    w = s.w
    size, count = at.TABLE, w[at.COUNT]
    if w[at.KEPT] + count + 1 > w[at.MOST_KEPT] or 2 * w[at.KNOWN] >= size:
        for i in range(size):
            s.w[s.w[at.PLACES] + i] = -1
        w[at.KEPT], w[at.KNOWN] = 0, 0
    slot = hashed(s) % size
    while s.w[s.w[at.PLACES] + slot] >= 0:
        slot = (slot + 1) % size
    place: int = w[at.KEPT]
    s.w[s.w[at.PLACES] + slot] = place
    s.w[s.w[at.KEYS] + place] = count
    for i in range(count):
        s.w[s.w[at.KEYS] + place + 1 + i] = s.w[s.w[at.R_NEEDS] + s.w[s.w[at.MEMBERS] + i]]
    w[at.KEPT] = place + count + 1
    w[at.KNOWN] += 1
    return place


def compact(s: State) -> None:
    """Forget the timers that have rung."""
    used = 0
    for place in range(s.w[at.HEAP]):
        if s.heap[place * at.ENTRY + 2] == at.TIMER:
            old = s.heap[place * at.ENTRY + 3]
            s.heap[place * at.ENTRY + 3] = used
            for i in range(s.timers[old] + 1):
                s.timers[len(s.timers) // 2 + used + i] = s.timers[old + i]
            used += s.timers[old] + 1
    for i in range(used):
        s.timers[i] = s.timers[len(s.timers) // 2 + i]
    s.w[at.USED] = used
