"""Published copies: between the devices of a node, to and from its host, and by RDMA from card to card.

What rows leave open is filled in by rules, the same for every row: a copy without a size is one of 512 MiB (the default
of nvbandwidth), verbs whose bandwidth is measured are streams of 128 messages in flight, of 64 KiB without a size (the
defaults of perftest), and the bandwidth of copies both ways at once is that of both together.
"""

import re
from dataclasses import dataclass
from typing import Literal

from simulator.interop.rows.accelerators import card
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.kernels import COPIES, KernelRow
from simulator.interop.rows.network import NetworkRow, cards_of, cluster_of, one_card
from simulator.interop.rows.suspicious import check_timed

Way = Literal["devices", "host", "cards"]
SIZE = float(512 << 20)
"""Bytes of a copy that states none: the buffer of nvbandwidth."""
IN_FLIGHT, MESSAGE = 128, float(64 << 10)
"""Messages in flight, and bytes of one, of a stream of verbs: what perftest has where it is asked for nothing else."""
MOST = float(1 << 50)
"""Bytes of a message that are believed."""
BOTH_WAYS = "p2p_copy_bidirectional"
HOST = ("copy_host_to_device", "copy_device_to_host", "copy_h2d", "copy_d2h")
VERB = re.compile(r"rdma_(write|read|send)(_bw|_lat|_batch)?")
RATES = ("bandwidth_bytes_per_s", "bytes_per_s")
TIMES = ("batch_time_s", "time_s", "latency_s")
LEAST = 1e9
"""Bytes/s from which published bandwidths have the digits to be held against times."""


@dataclass(frozen=True, slots=True)
class MappedCopy:
    """A row as one copy, or as messages that follow each other."""

    row: NetworkRow
    cluster: str
    way: Way
    """`devices`: from one to the next; `host`: over the link to the host; `cards`: from card to card of two nodes."""
    nodes: int
    size_bytes: float
    """Of a message, each way."""
    messages: int
    both: bool
    """Whether as much goes the other way meanwhile."""
    returns: bool
    """Whether it ends only when the other side has answered."""
    card: float | None
    """Bytes/s of a card where the row says it; None: that of the cluster."""
    measured_s: float
    metric: str
    """What the row publishes."""
    assumed: tuple[str, ...]

    @property
    def moved(self) -> float:
        """Bytes that go one way."""
        return self.size_bytes * self.messages


def is_copy(operation: str) -> bool:
    """Whether an operation, by our name, is a copy."""
    return operation in COPIES or VERB.fullmatch(operation) is not None


def of_kernel(row: KernelRow) -> NetworkRow:
    """The copy of a file of kernels, as rows of networks are written."""
    size = row.shape.get("bytes")
    return NetworkRow(
        id=row.id,
        source=row.source,
        op=row.op,
        accelerator=row.accelerator,
        accelerator_id=card(row.accelerator)[0],
        library=row.library,
        size_bytes=float(size) if isinstance(size, int | float) and not isinstance(size, bool) and size > 0 else None,
        metrics=row.metrics,
        notes=row.notes,
    )


def map_copy(row: NetworkRow) -> MappedCopy:
    """What a row measured; raises Refused with the reason where that is not simulated."""
    if not is_copy(row.op):
        raise Refused(f"operation `{row.op}` is no copy")
    way, most = _way(row.op)
    if (row.num_ranks or most) > most or (row.num_nodes or 1) > most:
        raise Refused(f"a copy among {row.num_ranks or most} devices of {row.num_nodes or 1} nodes")
    if row.size_bytes is not None and row.size_bytes > MOST:
        raise Refused(f"a copy of {row.size_bytes:.3g} bytes")
    assumed = ["moved as a send of the machine's library"] if way == "devices" else []
    verb = VERB.fullmatch(row.op)
    size, messages = _messages(row, verb is not None and verb[2] == "_bw", assumed)
    both = row.op == BOTH_WAYS
    measured, metric = _measured(row, size * messages * (1 + both))
    return MappedCopy(
        row,
        cluster_of(row.model_copy(update={"accelerator_id": row.accelerator_id or card(row.device)[0]})),
        way,
        row.num_nodes or (2 if way == "cards" else 1),
        size,
        messages,
        both,
        verb is not None and verb[2] != "_lat",
        _card(row) if way == "cards" else None,
        measured,
        metric,
        tuple(assumed),
    )


def _way(operation: str) -> tuple[Way, int]:
    """(what it goes over, how many ranks there are at most)."""
    if operation in HOST:
        return "host", 1
    return ("cards", 2) if VERB.fullmatch(operation) else ("devices", 2)


def _messages(row: NetworkRow, stream: bool, assumed: list[str]) -> tuple[float, int]:
    """(bytes of a message, how many are in flight)."""
    stated = row.params.get("batch_size")
    if isinstance(stated, int) and not isinstance(stated, bool) and 0 < stated <= 1 << 20:
        messages = stated
    else:
        messages = IN_FLIGHT if stream else 1
    size = row.size_bytes
    if size is None:
        size = MESSAGE if stream else SIZE
        assumed.append("messages of 64 KiB, 128 in flight" if stream else "a copy of 512 MiB")
    return size, messages


def _measured(row: NetworkRow, moved: float) -> tuple[float, str]:
    """Seconds, and the figure that they are taken from: a rate where no size says what a time is of."""
    rate = next(((row.metrics[key], key) for key in RATES if row.metrics.get(key)), None)
    time = next(((row.metrics[key], key) for key in TIMES if row.metrics.get(key)), None)
    if time is not None and row.size_bytes is not None:
        if rate is not None and rate[0] >= LEAST:
            check_timed({"time_s": time[0], rate[1]: rate[0]}, {rate[1]: moved})
        return time
    if rate is not None:
        return moved / rate[0], rate[1]
    raise Refused("a time without `size_bytes`" if time else "neither a time nor a bandwidth")


def _card(row: NetworkRow) -> float | None:
    """Bytes/s of one card by the words of a row; None where they say none."""
    several = cards_of(row)
    return several[1] if several else one_card(row)
