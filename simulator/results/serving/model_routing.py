"""What became of requests among several models: attempts, answers that were thrown away, latency, money and energy.

An attempt is one request at one pool, from when it was sent there until its answer was judged. Money and energy of a
pool are those of its devices over the whole run; a class has the share of it that its attempts have of the tokens, of
prompts and answers, of all attempts there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.units import TICKS_PER_SECOND

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Figures = Mapping[str, float]
UNKNOWN = -1.0
"""Accuracy that the scenario does not say."""


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class ModelUse:
    """Attempts as columns, and what is known of pools and classes."""

    pools: tuple[str, ...]
    """Names of the pools."""
    models: tuple[str, ...]
    """Name of what each serves."""
    classes: tuple[str, ...]
    """Names of the difficulties."""
    accuracy: tuple[float, ...]
    """Share of answers that are right, by class and then pool; UNKNOWN where nothing says."""
    devices: tuple[float, ...] = ()
    """Device seconds of each pool."""
    cost: tuple[float, ...] = ()
    """US dollars of each pool; empty where a price is not known."""
    energy: tuple[float, ...] = ()
    """Joules of each pool; empty where the power of a device is not known."""
    judge: int = 0
    """Picoseconds of judging an answer that another one could follow."""
    judged: tuple[int, ...] = ()
    """1 for pools whose answers are judged."""
    difficulty: Ints = field(default_factory=_none)
    """Index into `classes` of each request; shape (requests,)."""
    request: Ints = field(default_factory=_none)
    """Row of `RequestRecords` of each attempt; shape (attempts,), as all that follow, in the order of their ends."""
    pool: Ints = field(default_factory=_none)
    """Index into `pools`."""
    sent: Ints = field(default_factory=_none)
    """Picoseconds."""
    scheduled: Ints = field(default_factory=_none)
    """When it was first worked on; below 0: never."""
    end: Ints = field(default_factory=_none)
    """When its answer was judged, or it failed."""
    prompt: Ints = field(default_factory=_none)
    """Tokens."""
    output: Ints = field(default_factory=_none)
    kept: Ints = field(default_factory=_none)
    """1 where the answer reached the client."""

    def right(self, kind: Ints, pool: Ints) -> Floats:
        """Share of answers that are right; UNKNOWN where nothing says."""
        table = np.array(self.accuracy).reshape(len(self.classes), len(self.pools))
        return np.asarray(table[kind, pool], np.float64)

    def before(self, requests: int) -> tuple[Ints, Ints]:
        """Picoseconds of each request from its arrival until it was sent to the pool that answered it, and of the
        judging of that answer."""
        waited, judged = np.zeros(requests, np.int64), np.zeros(requests, np.int64)
        first = np.full(requests, -1, np.int64)
        for number in range(len(self.request) - 1, -1, -1):
            first[self.request[number]] = self.sent[number]
        mine = self.kept > 0
        waited[self.request[mine]] = self.sent[mine] - first[self.request[mine]]
        judges = np.array(self.judged or (0,) * len(self.pools), np.int64) * self.judge
        judged[self.request[mine]] = judges[self.pool[mine]]
        return waited, judged

    def asked_again(self, requests: int) -> Bools:
        """Whether each request was asked of more than one model."""
        return np.bincount(self.request, minlength=requests)[:requests] > 1


def figures(use: ModelUse, requests: int) -> dict[str, float]:
    """The metrics of several models."""
    kept, known = use.kept > 0, use.right(use.difficulty[use.request], use.pool)
    found = {
        "asked_again_share": float(use.asked_again(requests).sum()) / requests if requests else float("nan"),
        "discarded_tokens": float(use.output[~kept].sum()),
    }
    if kept.any() and (known[kept] != UNKNOWN).all():
        found["expected_accuracy"] = float(known[kept].mean())
    return found


def by_model(use: ModelUse) -> dict[str, dict[str, float]]:
    """For each pool: attempts, answers that reached the client, tokens of prompts and answers, latency of attempts in
    milliseconds, device seconds, and money and energy where known."""
    found = {}
    for number, name in enumerate(use.pools):
        mine = use.pool == number
        kept = mine & (use.kept > 0)
        one = {"attempts": float(mine.sum()), "answers": float(kept.sum())}
        one |= {"prompt_tokens": float(use.prompt[mine].sum()), "output_tokens": float(use.output[mine].sum())}
        one |= _latency((use.end - use.sent)[mine])
        one |= {key: values[number] for key, values in _amounts(use).items()}
        found[name] = one
    return found


def by_difficulty(use: ModelUse, latency: Callable[[Bools], Figures]) -> dict[str, Figures]:
    """For each class: figures of its requests as `latency` gives them, the share of each pool in its answers, how many
    were asked again, the accuracy to expect, and its share of money and energy."""
    tokens = (use.prompt + use.output).astype(np.float64)
    of_pool = np.bincount(use.pool, tokens, len(use.pools))
    again, kind = use.asked_again(len(use.difficulty)), use.difficulty[use.request]
    found: dict[str, Figures] = {}
    for number, name in enumerate(use.classes):
        members, mine = use.difficulty == number, kind == number
        kept = mine & (use.kept > 0)
        one = dict(latency(members)) | {"asked_again": float(again[members].sum())}
        answers = np.bincount(use.pool[kept], minlength=len(use.pools))
        one |= {f"answers_{pool}": float(count) for pool, count in zip(use.pools, answers, strict=True)}
        right = use.right(kind[kept], use.pool[kept])
        if len(right) and (right != UNKNOWN).all():
            one["expected_accuracy"] = float(right.mean())
        own = np.bincount(use.pool[mine], tokens[mine], len(use.pools))
        share = np.divide(own, of_pool, out=np.zeros(len(own)), where=of_pool > 0)
        one |= {key: float(share @ np.array(values)) for key, values in _amounts(use).items()}
        found[name] = one
    return found


def _amounts(use: ModelUse) -> dict[str, tuple[float, ...]]:
    known = {"device_s": use.devices, "cost_usd": use.cost, "energy_j": use.energy}
    return {name: values for name, values in known.items() if values}


def _latency(ticks: Ints) -> dict[str, float]:
    if not len(ticks):
        return {"mean_latency_ms": float("nan"), "p99_latency_ms": float("nan")}
    milliseconds = ticks / (TICKS_PER_SECOND / 1000)
    return {"mean_latency_ms": float(milliseconds.mean()), "p99_latency_ms": float(np.percentile(milliseconds, 99))}
