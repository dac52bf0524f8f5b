"""What is known of every request, column by column: one place that replicas, routers and the Result read and write.

Columns of few requests are lists, which are the fastest; those of many are arrays of machine words, times of 64 bits
and tokens of 32; what the workload holds they share.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.results.serving.service import IN_FLIGHT
from simulator.serving.workload.generate import NEVER, Workload

MANY = 200_000
"""Requests from which columns are arrays."""


class Column(Protocol):
    """Whole numbers by request."""

    def __getitem__(self, request: int, /) -> int: ...
    def __setitem__(self, request: int, value: int, /) -> None: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def count(self, value: int, /) -> int:
        """Requests with a value."""
        ...


@dataclass(slots=True)
class Ledger:
    """Requests by number. Times are ticks, NEVER where nothing happened yet."""

    arrival: Column
    prompt: Column
    """Tokens of the prompt."""
    output: Column
    """Tokens to come out."""
    priority: Column
    """Class, 0 the most urgent."""
    prefix: Sequence[Sequence[int]] | None
    """Identities of the blocks that a prompt begins with, see `Workload`."""
    prefix_block: int
    """Tokens of such a block."""
    ttft_slo: int = 0
    """Ticks from an arrival to the first token that an objective allows; 0 where there is none."""
    tenant: Sequence[int] = ()
    """Tenant of each; empty where tenants are not distinguished."""
    weights: Sequence[float] = ()
    """Share of the service of each tenant."""
    scheduled: Column = field(init=False)
    """Start of the first iteration that worked on it."""
    first_token: Column = field(init=False)
    finish: Column = field(init=False)
    remaining_tokens: Column = field(init=False)
    """Tokens of the prompt (after a preemption also of what came out before) that are still to be worked on."""
    cached: Column = field(init=False)
    """Tokens that a prefix cache held."""
    done: Column = field(init=False)
    """Tokens that came out."""
    preemptions: Column = field(init=False)
    replica: Column = field(init=False)
    """The replica that decodes it, -1 for none."""
    status: Column = field(init=False)
    pauses: list[tuple[int, int, int]] = field(init=False, default_factory=list)
    """(request, from, to): no tokens although the first was out, because of a preemption."""

    def __post_init__(self) -> None:
        """Nothing has happened yet."""
        n = len(self.prompt)
        self.scheduled, self.first_token, self.finish = (_filled(NEVER, n, "q") for _ in range(3))
        self.remaining_tokens = _copied(self.prompt) if n >= MANY else list(self.prompt)
        self.cached, self.done, self.preemptions = (_zeros(n) for _ in range(3))
        self.replica, self.status = _filled(-1, n, "i"), _filled(IN_FLIGHT, n, "i")

    def __len__(self) -> int:
        return len(self.prompt)

    def tenant_of(self, request: int) -> int:
        """Tenant of a request; 0 where tenants are not distinguished."""
        return self.tenant[request] if self.tenant else 0

    def weight_of(self, tenant: int) -> float:
        """Share of the service of a tenant."""
        return self.weights[tenant] if self.weights else 1.0


def narrow(workload: Workload) -> Workload:
    """The same requests; tokens of many in 32 bits, which hold those of any (`MOST_TOKENS`)."""
    if len(workload) < MANY:
        return workload
    prompt, output = (tokens.astype(np.int32) for tokens in (workload.prompt, workload.output))
    return replace(workload, prompt=prompt, output=output)  # type: ignore[arg-type]


def open_ledger(workload: Workload, ttft_slo: int = 0) -> Ledger:
    """The ledger of a workload; `ttft_slo` is the ticks from an arrival to the first token that an objective allows."""
    columns = (workload.arrival, workload.prompt, workload.output, workload.priority)
    arrival, prompt, output, priority = map(_shared if len(workload) >= MANY else _listed, columns)
    return Ledger(arrival, prompt, output, priority, workload.prefix, workload.prefix_block, ttft_slo)


def cached_tokens(ledger: Ledger, request: int) -> int:
    """Tokens of a prompt, and of what came out before it was computed again, whose keys and values a replica has once
    the prompt is done; the token that this gave is in no cache yet."""
    return ledger.prompt[request] + ledger.done[request] - (not ledger.remaining_tokens[request])


def column(values: Column, some: range | None = None) -> NDArray[np.int64]:
    """Part of a column, or all of it, as numpy has it, to read only: it may share the memory of the column."""
    which = slice(None) if some is None else slice(some.start, some.stop, some.step)
    part = values[which] if isinstance(values, list) else np.asarray(values)[which]
    return np.asarray(part, np.int64)


def _filled(value: int, count: int, kind: str) -> Column:
    """A column of one value."""
    return array(kind, (value,)) * count if count >= MANY else [value] * count


def _copied(tokens: Column) -> Column:
    """A column of its own that begins as another one."""
    return array("i", np.asarray(tokens, np.int32).tobytes())


def _zeros(count: int) -> Column:
    """A column of zeros; one of many takes no memory before it is written."""
    return _shared(np.zeros(count, np.int32)) if count >= MANY else [0] * count


def _listed(values: NDArray[np.int64]) -> Column:
    found: list[int] = values.tolist()
    return found


def _shared(values: NDArray[np.signedinteger[Any]]) -> Column:
    """The same memory."""
    return memoryview(values)  # type: ignore[arg-type, return-value]
