"""An execution as a graph: operations of one rank, what each waits for, and what those that communicate ask for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from pathlib import Path

from simulator.errors import InputError, Problem

MOST_NODES = 1_000_000
"""Operations of a file."""
MOST_BYTES = 1 << 26
"""Bytes of a file that are read."""


@dataclass(slots=True)
class Operation:
    """One operation."""

    id: int
    name: str
    lane: str = "compute"
    """What runs its operations one after the other: a stream, `compute`, `communication`."""
    after: tuple[int, ...] = ()
    """Operations that have to be done before."""
    duration_s: float = 0.0
    """As it was measured; 0 where it was not."""
    delay_s: float = 0.0
    """Between the last of what it waits for and its begin: work of the host, as it was measured."""
    flops: float = 0.0
    moved_bytes: float = 0.0
    """Bytes of memory that it touches."""
    collective: str = ""
    """Name of a collective, `send` or `receive`; empty for everything else."""
    size_bytes: float = 0.0
    """Of a collective or a message."""
    peer: int = -1
    """The other rank of a message."""
    tag: int = 0
    """Of a message."""
    group: str = ""
    """Name of the ranks that meet in a collective; all of them where it is empty."""
    ranks: tuple[int, ...] = ()
    """These ranks, where the trace says which; their number, where it says only that, is `members`."""
    members: int = 0


@dataclass(frozen=True, slots=True)
class Execution:
    """All operations of a rank."""

    name: str
    """Of the file."""
    rank: int
    operations: tuple[Operation, ...]
    measured_s: float = 0.0
    """From the first begin to the last end; 0 where the trace has no times."""
    notes: tuple[str, ...] = field(default=())
    """What of the file was left out, and how it was filled in."""


def read_bounded(path: Path) -> bytes:
    """The content of a file; InputError where it is not there, is no file, is empty or is larger than `MOST_BYTES`."""
    try:
        if not path.is_file():
            raise InputError(Problem("is no file" if path.exists() else "is not there", file=str(path)))
        if path.stat().st_size > MOST_BYTES:
            size = f"{path.stat().st_size / 1e6:,.0f} MB"
            hint = "cut the trace to one step"
            raise InputError(
                Problem(f"has {size}, more than the {MOST_BYTES / 1e6:.0f} MB that are read", file=str(path), hint=hint)
            )
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror or error}", file=str(path))) from error
    if not content or len(content) > MOST_BYTES:
        raise InputError(Problem("is empty" if not content else "grows while it is read", file=str(path)))
    return content


def ordered(operations: Sequence[Operation], file: str, key: Callable[[Operation], float]) -> tuple[Operation, ...]:
    """Operations so that each stands behind all that it waits for, otherwise by `key`.

    Raises InputError for two of one number, for one that waits for an operation that is not there, and for a circle.
    """
    by_id: dict[int, Operation] = {}
    for one in operations:
        if one.id in by_id:
            raise InputError(Problem(f"two operations have the number {one.id}", file=file))
        by_id[one.id] = one
    followers: dict[int, list[int]] = {}
    open_ = {one.id: 0 for one in operations}
    for one in operations:
        for before in set(one.after):
            if before not in by_id:
                message = f"operation {one.id} (`{one.name[:60]}`) waits for {before}, which is not there"
                raise InputError(Problem(message, file=file, hint="is the trace cut, or of several ranks?"))
            followers.setdefault(before, []).append(one.id)
            open_[one.id] += 1
    ready = [(key(by_id[number]), number) for number, count in open_.items() if not count]
    heapify(ready)
    found = []
    while ready:
        _, number = heappop(ready)
        found.append(by_id[number])
        for follower in followers.get(number, ()):
            open_[follower] -= 1
            if not open_[follower]:
                heappush(ready, (key(by_id[follower]), follower))
    if len(found) < len(operations):
        raise InputError(Problem(f"operations wait for each other in a circle: {_circle(by_id, open_)}", file=file))
    return tuple(found)


def _circle(by_id: dict[int, Operation], open_: dict[int, int]) -> str:
    """The numbers of one circle among those that are still open."""
    number = next(one for one, count in open_.items() if count)
    seen: list[int] = []
    while number not in seen:
        seen.append(number)
        number = next(before for before in by_id[number].after if open_[before])
    circle = [*seen[seen.index(number) :], number]
    shown = circle if len(circle) <= 8 else [*circle[:6], circle[-1]]
    return " -> ".join(map(str, shown))
