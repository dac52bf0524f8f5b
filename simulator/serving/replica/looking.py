"""Iterations to come of sequences that are verified several rows at a time, member by member as code of the machine.

The same numbers as `speculation.Ahead` gets from numpy over (iterations, members) at once: there a batch of hundreds
takes some fifteen calls for each stay, which is most of what a pool of drafting replicas costs. Made to be compiled by
numba, and readable by Python as it is.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator import machine_code

Ints = NDArray[np.int64]

CACHED, LEFT, HELD, PLACE = range(4)
"""Rows of what is known of members: tokens in the cache, tokens still to come, blocks of its tokens, place in the
table."""
LEAST = 4_000
"""Requests of a run from which compiled code is loaded, which takes tenths of a second."""


@cache
def compiled() -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """`look` and `settle` as code of the machine; None without numba, or where it finds no folder to keep the code."""
    looks, settles = machine_code.compiled(look), machine_code.compiled(settle)
    return None if looks is None or settles is None else (looks, settles)


def compiled_for(requests: int) -> tuple[Callable[..., Any], Callable[..., Any]] | None:
    """The same for a run of so many requests; None where it is not worth loading, and no earlier run has loaded it."""
    return compiled() if requests >= LEAST or compiled.cache_info().currsize else None


def look(
    taken: Ints,
    n: int,
    table: Ints,
    rows: int,
    size: int,
    mean: float,
    largest: int,
    most: int,
    out: Ints,
    held: Ints,
) -> tuple[int, bool]:
    """How many iterations are looked at, and whether members are done after the last of them.

    Arguments are those of `speculation.Ahead`, of which the first `n` columns of `taken` are members; its `out` and
    `held` are written into what is given.
    """
    least = taken[LEFT, 0]
    for j in range(1, n):
        least = min(least, taken[LEFT, j])
    count = max(min(int(least / mean * 1.2) + 3, most), 1)
    first = count + 1  # after how many iterations a member is done
    for j in range(n):
        left = taken[LEFT, j]
        if left <= (first - 1) * largest:
            place = taken[PLACE, j]
            over = left + table[place]
            for k in range(1, first):
                if table[place + k] >= over:
                    first = k
                    break
    done = first <= count
    if done:
        count = first
    out[: count + 1] = held[: count + 1] = 0
    shift = -1  # a block of 2^shift tokens is shifted, as the machine divides one number at a time
    if size and size & (size - 1) == 0:
        shift = 0
        while 1 << shift < size:
            shift += 1
    for j in range(n):
        place, own = taken[PLACE, j], taken[HELD, j]
        tokens, begin = table[place : place + count + 1], table[place]
        last = taken[CACHED, j] + rows + size - 1 - begin
        held[0] += own
        for k in range(1, count + 1):
            out[k] += tokens[k] - begin
        if shift >= 0:
            for k in range(1, count + 1):
                held[k] += max((last + tokens[k - 1]) >> shift, own)
        elif size:
            for k in range(1, count + 1):
                held[k] += max((last + tokens[k - 1]) // size, own)
        if done:
            out[count] -= max(tokens[count] - begin - taken[LEFT, j], 0)
    if not size:
        held[1 : count + 1] = held[0]
    return count, done


def settle(taken: Ints, n: int, table: Ints, rows: int, size: int, passed: int, capped: bool, turns: int) -> None:
    """Bring members to where they are after `passed` iterations, in the last of which none got more than it still
    lacked where they are `capped`; `turns` is after how many entries the table begins again."""
    for j in range(n):
        place = taken[PLACE, j]
        begin = table[place]
        tokens = table[place + passed] - begin
        if capped:
            tokens = min(tokens, taken[LEFT, j])
        if size:
            before = table[place + passed - 1] - begin
            taken[HELD, j] = max(taken[HELD, j], (before + taken[CACHED, j] + rows + size - 1) // size)
        taken[CACHED, j] += tokens
        taken[LEFT, j] -= tokens
        taken[PLACE, j] = (place + passed) % turns
