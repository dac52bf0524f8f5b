"""The requests of a trace as columns, gathered and checked one by one."""

from array import array
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from simulator.interop.traces.source import Source
from simulator.specs.requests import MOST_TOKENS

MOST_ROWS = 10_000_000
"""Requests of a trace, so that they fit into memory."""
MOST_SIDE = 100_000
"""Pixels of a side of an image."""
LATEST = 1e12
"""Seconds; no time is beyond."""
_DIGITS = len(str(MOST_TOKENS))


@dataclass(frozen=True, slots=True)
class TraceColumns:
    """Requests, one row each, in the order of arrival."""

    arrival_s: NDArray[np.float64] | None
    """Seconds from the first request, rising; None where the file has no times."""
    prompt: NDArray[np.int64]
    """Tokens of the prompts, at least 1."""
    output: NDArray[np.int64]
    """Tokens of the answers, at least 1."""
    hashes: tuple[tuple[int, ...], ...] | None = None
    """Identities of the blocks of each prompt, the last of which may be partial; None where the file has none."""
    hash_block: int = 0
    """Tokens of such a block."""
    session: NDArray[np.int64] | None = None
    """Conversation of each request, -1 for none; None where the file has none."""
    priority: NDArray[np.int64] | None = None
    """Priority class, 0 the most urgent; None where the file has none."""
    images: tuple[tuple[tuple[int, int], ...], ...] | None = None
    """(width, height) in pixels of the images of each request; None where the file has none."""
    format: str = ""
    """Name of the format that was recognised."""
    assumptions: tuple[str, ...] = ()
    """What the file leaves open and how it was filled in."""
    warnings: tuple[str, ...] = ()
    """What was left out or put in order."""


class Rows:
    """Gathers requests. A request with an empty prompt or answer failed: it is counted and left out."""

    def __init__(self, source: Source) -> None:
        """Start empty; `source` names the file in errors."""
        self.source = source
        self._prompt, self._output, self._lines = array("q"), array("q"), array("q")
        self._times, self._sessions, self._priorities = array("d"), array("q"), array("q")
        self._hashes: list[tuple[int, ...]] = []
        self._images: list[tuple[tuple[int, int], ...]] = []
        self._names: dict[object, int] = {}
        self._failed = 0

    def add(self, line: int, prompt: int, output: int, time: float | None = None) -> bool:
        """Take a request of these lengths, at these seconds; False where it is a failed one, which has no row."""
        if prompt == 0 or output == 0:
            self._failed += 1
            return False
        if len(self._prompt) == MOST_ROWS:
            raise self.source.error(f"has more than {MOST_ROWS:,} requests", line, hint="cut it into smaller files")
        self._prompt.append(prompt)
        self._output.append(output)
        self._lines.append(line)
        if time is not None:
            self._times.append(time)
        return True

    def fail(self) -> None:
        """Count a request that has no row."""
        self._failed += 1

    def share(self, hashes: tuple[int, ...]) -> None:
        """Say of the request taken last which blocks its prompt has."""
        self._hashes.append(hashes)

    def converse(self, session: object) -> None:
        """Say of the request taken last to which conversation it belongs, by any name; empty for none."""
        self._sessions.append(-1 if session in ("", None) else self._names.setdefault(session, len(self._names)))

    def rank(self, priority: int) -> None:
        """Say of the request taken last which priority class it has."""
        self._priorities.append(priority)

    def see(self, cell: str, line: int, column: str) -> None:
        """Say of the request taken last which images it has: `1024x768 512x512`, width before height; empty for none.
        InputError where a size is none."""
        found = []
        for word in cell.replace(";", " ").split():
            sides = word.lower().split("x")
            if len(sides) != 2 or not all(_is_side(side) for side in sides):
                hint = f"write width x height, each from 1 to {MOST_SIDE:,} pixels, as `1024x768 512x512`"
                raise self.source.error(f"{_excerpt(word)} is no size of an image", line, column, hint)
            found.append((int(sides[0]), int(sides[1])))
        self._images.append(tuple(found))

    def whole(self, value: object, line: int, column: str) -> int:
        """A cell or value as a whole number from 0 to `MOST_TOKENS`; InputError where it is none."""
        if isinstance(value, str):
            text = value.strip()
            if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
                value = int(text)
        if type(value) is int and 0 <= value <= MOST_TOKENS:
            return value
        hint = f"write a whole number, from 0 to {MOST_TOKENS:,}"
        raise self.source.error(f"{_excerpt(value)} is no number of tokens", line, column, hint)

    def seconds(self, value: object, line: int, column: str, scale: float = 1.0) -> float:
        """A cell or value times `scale` as a time of at least 0; InputError where it is none."""
        number = inf
        if isinstance(value, (str, int, float)) and not isinstance(value, bool):
            try:
                number = float(value) * scale
            except (ValueError, OverflowError):
                number = inf
        if not 0 <= number <= LATEST:  # which no NaN is
            raise self.source.error(f"{_excerpt(value)} is no time", line, column, "write a number from 0 on")
        return number

    def columns(self, *, ordered: bool, hash_block: int = 0, assumptions: tuple[str, ...] = ()) -> TraceColumns:
        """What was gathered, by time; InputError where it is nothing, or where an `ordered` format is not in order."""
        if not self._prompt:
            lost = f": all {self._failed:,} that it has are empty" if self._failed else ""
            raise self.source.error(f"holds no request{lost}")
        times = np.array(self._times) if len(self._times) else None
        order = None if times is None else self._order(times, ordered)
        if times is not None:
            times = times if order is None else times[order]
            times = times - times[0]
        hashes = None
        if self._hashes:
            hashes = tuple(self._hashes if order is None else [self._hashes[row] for row in order.tolist()])
        images = None
        if any(self._images):
            images = tuple(self._images if order is None else [self._images[row] for row in order.tolist()])
        return TraceColumns(
            times,
            _taken(self._prompt, order),
            _taken(self._output, order),
            hashes,
            hash_block,
            _taken(self._sessions, order) if self._names else None,
            _taken(self._priorities, order) if self._priorities else None,
            images=images,
            assumptions=assumptions,
            warnings=self._warnings(order is not None),
        )

    def _order(self, times: NDArray[np.float64], ordered: bool) -> NDArray[np.int64] | None:
        """The order of time; None where rows are in it."""
        back = np.flatnonzero(np.diff(times) < 0)
        if not len(back):
            return None
        if ordered:
            line = self._lines[int(back[0]) + 1]
            problem = "goes back in time, which traces of this kind never do"
            raise self.source.error(problem, line, hint="sort the file, or see whether it was put together wrongly")
        return np.argsort(times, kind="stable")

    def _warnings(self, sorted_: bool) -> tuple[str, ...]:
        found = []
        if self._failed:
            total = self._failed + len(self._prompt)
            found.append(f"{self._failed:,} of {total:,} requests are empty or failed; they were left out")
        if sorted_:
            found.append("requests were not in the order of time; they were sorted")
        return tuple(f"{self.source.name}: {text}" for text in found)


def _taken(values: "array[int]", order: NDArray[np.int64] | None) -> NDArray[np.int64]:
    column = np.array(values, np.int64)
    return column if order is None else column[order]


def _is_side(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS and 1 <= int(text) <= MOST_SIDE


def _excerpt(value: object) -> str:
    """A value as messages show it: never long."""
    text = value.strip() if isinstance(value, str) else _plain(value)
    return f"`{text}`" if len(text) <= 40 else f"`{text[:37]}...`"


def _plain(value: object) -> str:
    if isinstance(value, int) and abs(value) > 1 << 64:  # thousands of digits cannot even be printed
        return "a huge number"
    return type(value).__name__ if isinstance(value, (list, dict)) else repr(value)
