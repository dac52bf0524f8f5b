"""What a replica writes down while it runs, from which `run` makes the Result: iterations, gaps, use of the cache."""

from array import array
from collections.abc import Callable
from struct import Struct, error
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.results.serving.packed import BLOCKS, COUNT, PACKED, Part, narrowed
from simulator.serving.replica.caches.usage import Usage

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.decodes import Decodes

Ints = NDArray[np.int64]

COLUMNS = 11
"""Numbers of a row of a replica's log, in the order of `results.Iterations`, and the prompts that end."""
packed = Struct(f"{COLUMNS}q").pack
"""A row as bytes, which arrays take four times faster than numbers."""
TOO_LONG = "an iteration lasts longer than the clock counts"


class Record:
    """Columns that only grow."""

    __slots__ = (
        "adapted",
        "apart",
        "busy",
        "copied",
        "done",
        "drafted",
        "encoded",
        "exchanged",
        "full",
        "gap_counts",
        "gap_ticks",
        "hosted",
        "log",
        "most",
        "parts",
        "saved",
        "shared_rows",
        "silent",
        "stalled",
        "usage",
        "waits",
    )

    def __init__(self, block_size: int) -> None:
        """Nothing has happened yet."""
        self.silent = False
        """Whether rows are left out, for want of a reader: what the ledger says of requests is all that is asked."""
        self.log = array("q")
        """`COLUMNS` numbers an iteration, or a stretch."""
        self.most = 1 << 62
        """Numbers of the log from which `full` is called, which may take them away."""
        self.full: Callable[[], None] | None = None
        self.parts: list[Part] = []
        """Rows that came before those of the log, where these have been packed; usage of theirs is in them."""
        self.usage = Usage(block_size)
        self.gap_ticks, self.gap_counts = array("q"), array("q")
        """Ticks between two tokens of a request, and how many requests had that gap, where the rows do not say it: a
        row says that its first iteration is the gap of all its decodes."""
        self.apart = array("q")
        """Rows, by number, whose first gaps are noted in these instead."""
        self.done = array("q")
        """(row, members of a static batch that are done and go on in it) one after the other, of rows with such."""
        self.waits = array("q")
        """Ticks in which it waited for replicas in step with it, in each iteration; nothing where there are none."""
        self.shared_rows = array("q")
        """Rows of all these and those of them that gave a token, of each iteration, one after the other."""
        self.exchanged = 0
        """Ticks in which rows were sent to their experts only, and back."""
        self.busy = 0
        """Ticks in which it worked, the mean over its stages."""
        self.stalled = 0
        """Ticks by which others on its links made its iterations longer."""
        self.saved = 0
        """Ticks by which its iterations are shorter than their operations one by one, summed over its stages."""
        self.drafted = 0
        """Ticks of drafting on its last stage, that of attention apart."""
        self.adapted = 0
        """Ticks of the kernels of adapters, all stages together."""
        self.encoded = 0
        """Ticks of its first stage in which it encoded images."""
        self.hosted = 0
        """Ticks in which its device waited for the host that works beside it, alone; its first stage's."""
        self.copied = 0
        """Ticks of its first stage in which it copied to and from the host."""

    def meet(self, rows: tuple[int, int], waited: int, sent: int) -> None:
        """An iteration works on so many (rows, rows that give a token) of the group, and waits so many ticks for it;
        `sent` are the ticks of sending each row to its experts and back."""
        if self.silent:
            return
        self.exchanged += sent
        self.shared_rows.extend(rows)
        self.waits.append(waited)

    def note_stay(self, batch: "Batch", stay: Ints) -> None:
        """Write down iterations of decodes in step with others that are over, each (ticks of own work, begin, end,
        planned ticks, ticks of the longest, rows of all, those that gave a token, ticks of sending, saved ones)."""
        own, begin, end, _, longest, *_ = stay.T
        planned, _, _, _, sent, saved = stay[:, 3:].sum(axis=0).tolist()
        work, decodes, count = batch.work, batch.decodes, len(stay)
        n, each = decodes.n, np.empty((count, COLUMNS), np.int64)
        each[:] = 0, 1, 0, 0, n, 0, 0, decodes.context, work.used, work.queued, 0
        each[:, 0] = begin
        np.subtract(end, begin, out=each[:, 2])
        each[:, 7] += decodes.later(count)
        each[:, 8] += decodes.taken(count)
        self.drafted += (count - 1) * work.drafts
        self._write(each, decodes.rows)
        _append(self.waits, longest - own)
        _append(self.shared_rows, stay[:, 5:7])
        self.exchanged += sent
        self.saved += saved
        self.stalled += int(each[:, 2].sum()) - planned
        self.busy += int(end[-1] - begin[0])
        self._gaps(decodes, int(end[0]))
        _append(self.gap_ticks, end[1:] - end[:-1])
        self.gap_counts.extend(array("q", (n,)) * (count - 1))
        if len(self.log) >= self.most:
            self.hand_over()

    def _write(self, rows: Ints, done: int) -> None:
        """Add rows whose gaps are noted, with so many members that are done."""
        before = len(self.log) // COLUMNS
        _append(self.log, rows)
        written = np.arange(before, before + len(rows))
        _append(self.apart, written)
        if done:
            _append(self.done, np.stack([written, np.full(len(rows), done)], axis=1))

    def gaps_apart(self, decodes: "Decodes", end: int) -> None:
        """Tokens of all members came out at `end`, and the gaps of the last row are not what it says."""
        self.apart.append(len(self.log) // COLUMNS - 1)
        self._gaps(decodes, end)

    def _gaps(self, decodes: "Decodes", end: int) -> None:
        """Tokens of all members came out at `end`."""
        fresh = decodes.fresh
        if decodes.n > len(fresh):
            self.gap(end - decodes.last, decodes.n - len(fresh))
        for tick in fresh:
            self.gap(end - tick, 1)

    def gap(self, ticks: int, count: int) -> None:
        """So many requests waited so long for a token."""
        if not self.silent:
            self.gap_ticks.append(ticks)
            self.gap_counts.append(count)

    def note(self, batch: "Batch", now: int, grows: bool, turns: bool) -> None:
        """Write down an iteration, or a stretch, that is over.

        `grows`: sequences take blocks as they grow; `turns`: batches take turns, so that work is not time.
        """
        if self.silent:
            return
        work, stretch, decodes = batch.work, batch.stretch, batch.decodes
        self.adapted += stretch.count * work.adapting
        if stretch.more is not None and stretch.count > 1:
            self._note_bent(batch, now)
            return
        if work.short:
            self._wait(batch)
        start, count, first, growth = stretch.start, stretch.count, stretch.first, stretch.growth
        n = decodes.n if work.decoding else 0
        context = decodes.context if n else 0
        prompts = work.tokens, len(work.chunks)
        row = (start, count, first, growth, n, *prompts, context, work.used, work.queued, work.ended)
        try:
            self.log.frombytes(packed(*row))
        except error:
            raise OverflowError(TOO_LONG) from None
        if n and decodes.rows:
            self.done.extend((len(self.log) // COLUMNS - 1, decodes.rows))
        if count > 1 and grows:
            self.usage.note(count, first, growth, work.used, decodes.iteration, decodes.counts)
        if not turns:
            self.busy += now - start
        if n and (decodes.fresh or decodes.last != start):  # not all have waited for this iteration, and for it only
            self.gaps_apart(decodes, start + first)
        if len(self.log) >= self.most:
            self.hand_over()

    def hand_over(self) -> None:
        """There are so many rows that they are taken away."""
        assert self.full is not None
        self.full()

    def pack(self, grows: bool, least: int = PACKED) -> None:
        """Move rows from the log to parts, `PACKED` at a time, as long as it has `least` of them."""
        while len(self.log) >= least * COLUMNS:
            rows = np.frombuffer(self.log[: PACKED * COLUMNS], np.int64).reshape(-1, COLUMNS)
            several = rows[rows[:, COUNT] > 1, BLOCKS]
            held = self.usage.forget(len(several)) if grows else (several.astype(np.float64), several)
            self.parts.append(narrowed(rows, *held))
            del self.log[: PACKED * COLUMNS]

    def clear(self) -> None:
        """Forget rows and gaps that have been taken; sums stay."""
        self.log, self.waits, self.shared_rows = array("q"), array("q"), array("q")
        self.gap_ticks, self.gap_counts, self.apart = array("q"), array("q"), array("q")
        self.done = array("q")
        self.usage.settle()
        self.usage.mean, self.usage.last = array("d"), array("q")

    def _wait(self, batch: "Batch") -> None:
        """The device waits for the host in iterations that are over, less in each as they grow."""
        later = batch.decodes.later(batch.stretch.count) if batch.stretch.count > 1 else np.zeros(1, np.int64)
        self.hosted += int(np.maximum(batch.work.short - batch.line.slope * later, 0).sum())

    def _note_bent(self, batch: "Batch", now: int) -> None:
        """Write down iterations of decodes that are longer by other ticks each time, one by one."""
        work, stretch, decodes, count = batch.work, batch.stretch, batch.decodes, batch.stretch.count
        assert stretch.more is not None
        spans = stretch.first + stretch.more[:count]
        ends = stretch.start + np.cumsum(spans)
        each = np.zeros((count, COLUMNS), np.int64)
        each[:, 0], each[:, 1], each[:, 2], each[:, 4] = ends - spans, 1, spans, decodes.n
        each[:, 7] = decodes.context + decodes.later(count)
        each[:, 8], each[:, 9] = work.used + decodes.taken(count), work.queued
        self._write(each, decodes.rows)
        if work.short:
            self._wait(batch)
        self.drafted += (count - 1) * work.drafts
        self.busy += now - stretch.start
        self._gaps(decodes, int(ends[0]))
        _append(self.gap_ticks, spans[1:])
        _append(self.gap_counts, np.full(count - 1, decodes.n))
        if len(self.log) >= self.most:
            self.hand_over()


def _append(column: "array[int]", values: Ints) -> None:
    """Add all values, row after row."""
    column.frombytes(np.ascontiguousarray(values, np.int64).tobytes())
