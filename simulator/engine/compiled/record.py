"""The record of what resources carry: `load.Load` over arrays, whose rows Python books."""

from simulator.engine.compiled import layout as at
from simulator.engine.compiled.layout import State


def touch(s: State, needs: int) -> None:
    """What the resources carry that a phase uses is about to change."""
    w = s.w
    if not w[at.RECORDS]:
        return
    for entry in range(s.w[s.w[at.ENTRY_START] + needs], s.w[s.w[at.ENTRY_START] + needs + 1]):
        resource = s.w[s.w[at.ENTRY_RESOURCE] + entry]
        if s.w[s.w[at.RECORDED] + resource]:
            if w[at.NOW] > w[at.INSTANT]:
                book(s)
            if not s.w[s.w[at.TOUCHED_AT] + resource]:
                s.w[s.w[at.TOUCHED_AT] + resource] = 1
                s.w[s.w[at.TOUCHED] + w[at.TOUCHES]] = resource
                w[at.TOUCHES] += 1


def book(s: State) -> None:
    """Book what the resources that were touched have carried since: rows of resource, tick, labels, and each label."""
    w = s.w
    for i in range(w[at.TOUCHES]):
        resource = s.w[s.w[at.TOUCHED] + i]
        s.w[s.w[at.TOUCHED_AT] + resource] = 0
        count = carry(s, resource)
        place = w[at.LOGGED]
        s.w[s.w[at.ROWS] + place], s.w[s.w[at.ROWS] + place + 1], s.w[s.w[at.ROWS] + place + 2] = (
            resource,
            w[at.INSTANT],
            count,
        )
        for j in range(count):
            s.w[s.w[at.ROWS] + place + 3 + j] = s.w[s.w[at.CARRIED] + j]
            s.f[s.w[at.AMOUNTS] + place + 3 + j] = s.f[s.w[at.BY_LABEL] + s.w[s.w[at.CARRIED] + j]]
        w[at.LOGGED] = place + 3 + count
    w[at.TOUCHES] = 0
    w[at.INSTANT] = w[at.NOW]


def carry(s: State, resource: int) -> int:
    """Units per tick that a resource carries for each label; returns how many labels."""
    width, count = s.w[at.WIDTH], 0
    kept, keeps = 0.0, False
    node = s.w[s.w[at.FIRST_USER] + resource]
    while node >= 0:
        kept += s.f[s.w[at.ENTRY_KEPT] + s.w[s.w[at.ENTRY_OF] + node]]
        keeps = keeps or s.w[s.w[at.ENTRY_RESERVED] + s.w[s.w[at.ENTRY_OF] + node]] != 0
        node = s.w[s.w[at.BEHIND] + node]
    part = min(1.0, s.f[s.w[at.CAPACITY] + resource] / kept) if kept > 0.0 else 1.0
    node = s.w[s.w[at.FIRST_USER] + resource]
    while node >= 0:
        user, entry = node // width, s.w[s.w[at.ENTRY_OF] + node]
        units = s.f[s.w[at.ENTRY_RATE] + entry] * s.f[s.w[at.R_SPEED] + user]
        if keeps:
            own = s.f[s.w[at.ENTRY_KEPT] + entry]
            units = own * part + (s.f[s.w[at.ENTRY_RATE] + entry] - own) * s.f[s.w[at.R_SPEED] + user]
        if units > 0:
            label = s.w[s.w[at.R_LABEL] + user]
            known = False
            for j in range(count):
                known = known or s.w[s.w[at.CARRIED] + j] == label
            if known:
                s.f[s.w[at.BY_LABEL] + label] += units
            else:
                s.w[s.w[at.CARRIED] + count] = label
                s.f[s.w[at.BY_LABEL] + label] = units
                count += 1
        node = s.w[s.w[at.BEHIND] + node]
    return count
