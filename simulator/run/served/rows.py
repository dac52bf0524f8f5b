"""What replicas and requests wrote down while a run lasted, as the columns of a Result."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.axes import EP, TP
from simulator.results.result import Iterations, RequestRecords, TokenGaps
from simulator.results.serving.iterations import RowGaps
from simulator.results.serving.packed import PACKED, PackedIterations
from simulator.serving.costs.beside.drafting import verified_rows
from simulator.serving.costs.iteration import ReplicaCost
from simulator.serving.costs.pieces import RowCosts
from simulator.serving.replica.images import ImageEncoder
from simulator.serving.replica.ledger import Column, Ledger, column
from simulator.serving.replica.record import COLUMNS
from simulator.serving.replica.replica import Replica

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Sizes = tuple[Ints, Floats]
"""Sizes, and how many there are of each."""


def order_of(ledger: Ledger) -> Ints | range:
    """Requests in the order of arrival; those that nothing released come last. A range where it is that of numbers."""
    arrival = column(ledger.arrival)
    if not len(arrival) or (arrival[0] >= 0 and bool((arrival[1:] >= arrival[:-1]).all())):
        return range(len(arrival))
    return np.argsort(np.where(arrival < 0, np.iinfo(np.int64).max, arrival), kind="stable").astype(np.int64)


def requests_of(ledger: Ledger, order: Ints | range, own: bool = False) -> RequestRecords:
    """Records of some requests, in an order; of a range of them columns may share the ledger's memory, and all that can
    do if they keep their `own` width."""

    def taken(values: Column) -> Ints:
        if own and isinstance(order, range) and not isinstance(values, list):
            found: Ints = np.asarray(values)[order.start : order.stop : order.step]
            return found
        if isinstance(order, range):
            return column(values, order)
        return column(values)[order] if isinstance(values, list) else np.asarray(np.asarray(values)[order], np.int64)

    return RequestRecords(
        arrival=taken(ledger.arrival),
        scheduled=taken(ledger.scheduled),
        first_token=taken(ledger.first_token),
        finish=taken(ledger.finish),
        prompt=taken(ledger.prompt),
        output=taken(ledger.output),
        generated=taken(ledger.done),
        cached=taken(ledger.cached),
        preemptions=taken(ledger.preemptions),
        replica=taken(ledger.replica),
        status=taken(ledger.status),
        priority=taken(ledger.priority),
    )


def logs_of(replica: Replica) -> Iterator[Ints]:
    """The columns of a replica's log, `PACKED` rows at a time."""
    record = replica.record
    for part in record.parts:
        yield part.table()
    rows = np.frombuffer(record.log, np.int64).reshape(-1, COLUMNS)
    for first in range(0, len(rows), PACKED):
        yield rows[first : first + PACKED].T


def iterations_of(replica: Replica) -> Iterations:
    """What a replica did."""
    if replica.record.parts:
        replica.record.pack(replica.policy.grows, 1)
        return PackedIterations(replica.record.parts)
    rows = np.frombuffer(replica.record.log, np.int64).reshape(-1, COLUMNS).T
    count, blocks = rows[1], rows[8]
    mean, last = blocks.astype(np.float64), blocks.copy()
    if replica.policy.grows:
        replica.record.usage.settle()
        mean[count > 1] = np.frombuffer(replica.record.usage.mean, np.float64)
        last[count > 1] = np.frombuffer(replica.record.usage.last, np.int64)
    waited = np.broadcast_to(np.int64(0), len(count))
    if replica.group is not None:
        waited = np.array(replica.record.waits, np.int64)
    done = np.zeros(len(count), np.int64)
    row, members = np.frombuffer(replica.record.done, np.int64).reshape(-1, 2).T
    done[row] = members
    columns = [*rows[:10], waited, mean, last, done]
    return Iterations(*columns)


def verified_of(cost: ReplicaCost, rows: Iterations) -> Ints:
    """Rows of decodes of each kind of iteration, drafts and members of a static batch that are done among them."""
    return verified_rows(cost.speculation, rows.decodes + rows.done)


class PartSeconds:
    """Seconds of what depends on the rows of a pass by part, found once for all replicas that cost the same."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        """Of nothing yet."""
        self._known: dict[int, tuple[RowCosts, NDArray[np.bool_], dict[str, Floats]]] = {}
        """(what was asked, which sizes are known, seconds by part and size) by the identity of what was asked."""

    def of(self, cost: RowCosts, sizes: Ints) -> dict[str, Floats]:
        """Seconds by part of each size."""
        _, known, seconds = self._known.get(id(cost), (cost, np.zeros(0, np.bool_), {}))
        if (more := int(sizes.max(initial=-1)) + 1 - len(known)) > 0:
            known = np.pad(known, (0, more))
            seconds = {part: np.pad(each, (0, more)) for part, each in seconds.items()}
        fresh = sizes[~known[sizes]]
        if len(fresh):
            for part, each in cost(fresh).items():
                seconds.setdefault(part, np.zeros(len(known)))[fresh] = each
            known[fresh] = True
        self._known[id(cost)] = cost, known, seconds
        return {part: each[sizes] for part, each in seconds.items()}


def row_parts(replica: Replica, parts: PartSeconds) -> dict[str, float]:
    """Seconds of rows of a replica by what they consist of, as far as rows say, the mean over its stages; `parts` are
    those of replicas before."""
    speculation = replica.stages.costs[0].speculation

    def times(amount: Callable[[Ints, Ints], Ints], which: Callable[[Ints], Bools] | None = None) -> Sizes:
        """Amounts of (rows of decodes, row of the log) that iterations have, and how many have each."""
        found = (
            (amount(verified_rows(speculation, log[4]), log), log[1], slice(None) if which is None else which(log))
            for log in logs_of(replica)
        )
        return _times((amounts[some], count[some]) for amounts, count, some in found)

    body = times(lambda verified, log: verified + log[5])
    ending = times(lambda verified, log: verified + log[10])
    # A static batch computes rows of members that are done as well: what they cost is found under attention.
    seconds: dict[str, float] = {}
    record, costs = replica.record, replica.stages.costs
    for cost in costs:
        for own, (sizes, often) in ((cost.body, body), (cost.ending, ending)):
            for part, each in parts.of(own, sizes).items():
                seconds[part] = seconds.get(part, 0.0) + float(each @ often) / len(costs)
        if cost.common is not None and record.shared_rows:
            asked = np.array(record.shared_rows, np.int64).reshape(-1, 2).T
            for shared, amount in zip(cost.common, asked, strict=True):
                sizes, often = _times([(amount, np.ones_like(amount))])
                for part, each in parts.of(shared, sizes).items():
                    seconds[part] += float(each @ often) / len(costs)
    host = costs[0].host
    sequences, often = times(lambda _, log: log[4] + log[6])
    waits = sum(host(m) * n for m, n in zip(sequences.tolist(), often.tolist(), strict=True))
    seconds["host"] = waits / len(costs) / units.TICKS_PER_SECOND
    for cost in costs if costs[0].launching is not None else ():
        assert cost.launching is not None
        sizes, often = times(lambda verified, log: verified + log[5], lambda log: log[6] > 0)
        for part, each in cost.launching(sizes).items():
            seconds[part] = seconds.get(part, 0.0) + float(each @ often) / len(costs)
    if record.waits:
        seconds["idle for peers"] = units.to_seconds(sum(record.waits))
    return seconds


def parts_of(replica: Replica, rows: dict[str, float]) -> dict[str, float]:
    """Seconds in which a replica worked by what they consist of, given what all its rows say."""
    record, costs = replica.record, replica.stages.costs
    seconds = {part: value for part, value in rows.items() if part not in ("host", "idle for peers")}
    seconds[EP.name] = seconds.get(EP.name, 0.0) + units.to_seconds(record.exchanged)
    seconds["host"] = rows.get("host", 0.0)
    waited = "weight loads" if costs[0].stream_ticks or costs[0].loads is not None else "host"
    seconds[waited] = seconds.get(waited, 0.0) + record.hosted / len(costs) / units.TICKS_PER_SECOND
    if record.drafted:
        seconds["draft"] = record.drafted / len(costs) / units.TICKS_PER_SECOND
    if record.adapted:
        seconds["adapters"] = record.adapted / len(costs) / units.TICKS_PER_SECOND
    if replica.finetuning is not None:
        seconds["finetuning"] = replica.finetuning.counts.ticks / units.TICKS_PER_SECOND
    if record.encoded:
        name = "images" if isinstance(replica.encoder, ImageEncoder) else "encoder"
        seconds[name] = record.encoded / len(costs) / units.TICKS_PER_SECOND
    if record.copied:
        seconds["host transfer"] = record.copied / len(costs) / units.TICKS_PER_SECOND
    if replica.wasted:
        seconds["lost by failures"] = units.to_seconds(replica.wasted)
    if record.stalled:
        seconds["stall"] = units.to_seconds(record.stalled)
    if "idle for peers" in rows:
        seconds["idle for peers"] = rows["idle for peers"]
    if record.saved:
        _hide(seconds, record.saved / len(costs) / units.TICKS_PER_SECOND)
    seconds["attention"] = units.to_seconds(record.busy) - sum(seconds.values())
    return {part: value for part, value in seconds.items() if value > 0}


def _hide(seconds: dict[str, float], saved: float) -> None:
    """Take what ran beside something else from the parts of communication; what cutting a batch costs is a part."""
    sent = sum(seconds.get(axis, 0.0) for axis in (TP.name, EP.name))
    hidden = min(max(saved, 0.0), sent)
    for axis in (TP.name, EP.name) if hidden else ():
        if axis in seconds:
            seconds[axis] -= hidden / sent * seconds[axis]
    if saved < 0:
        seconds["cut in parts"] = -saved
    seconds["other"] -= min(max(saved - sent, 0.0), seconds["other"])


def _times(rows: Iterable[tuple[Ints, Ints]]) -> Sizes:
    """Amounts above 0 that iterations have, and how many iterations have each, of (amounts, iterations) of rows."""
    times = np.zeros(1)
    for amount, count in rows:
        more = np.bincount(amount, weights=count)
        times = np.pad(times, (0, max(len(more) - len(times), 0)))
        times[: len(more)] += more
    sizes = np.flatnonzero(times[1:]) + 1
    return sizes.astype(np.int64), times[sizes].astype(np.float64)


def gaps_of(replicas: Sequence[Replica], rows: Sequence[Iterations]) -> RowGaps:
    """Gaps between tokens of replicas with these rows."""
    ticks = [np.frombuffer(replica.record.gap_ticks, np.int64) for replica in replicas]
    counts = [np.frombuffer(replica.record.gap_counts, np.int64) for replica in replicas]
    plain = []
    for replica, own in zip(replicas, rows, strict=True):
        says = np.ones(len(own.count), np.bool_)
        says[np.frombuffer(replica.record.apart, np.int64)] = False
        plain.append((own, says))
    return RowGaps(TokenGaps(np.concatenate(ticks), np.concatenate(counts)), plain)
