"""Figures of a serving run whose requests and iterations are not all kept: sums, which are exact, and sketches.

Rows of iterations are added as replicas give them away, requests when all are done, part by part. The figures have the
names and definitions of `results.service`; percentiles are off by `results.sketch.ERROR` at most.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.metrics import PERCENTILES
from simulator.results.result import Gaps, Iterations, RequestRecords
from simulator.results.serving import iterations as of
from simulator.results.serving.service import (
    FAILED,
    FINISHED,
    IN_FLIGHT,
    MILLISECOND,
    REJECTED,
    SECOND,
    Objectives,
    attained,
    latencies,
    latency_figures,
    per,
    share_of,
)
from simulator.results.serving.sketch import Sketch

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LATENCIES = ("ttft", "tpot", "itl", "e2el", "queue")


@dataclass(slots=True, eq=False)
class ReplicaTotals:
    """What rows of a replica add up to."""

    name: str
    devices: int
    device: str
    role: str
    blocks: int
    rows: int = 0
    """Rows that were added."""
    iterations: int = 0
    busy: float = 0.0
    """Seconds of its iterations, one after the other."""
    decoding: float = 0.0
    """The same weighted with the sequences that decode."""
    used: float = 0.0
    """The same weighted with the cache blocks in use."""
    most_blocks: int = 0
    decoded: int = 0
    """Tokens of decoding sequences, one of each in each iteration."""
    last: int = 0
    """End of the last iteration."""
    worked: float = 0.0
    """Seconds in which it worked, the mean over its stages."""
    parts: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Totals:
    """What a run adds up to."""

    origin: int
    """The first arrival."""
    slo: Objectives | None = None
    replicas: list[ReplicaTotals] = field(default_factory=list)
    sketches: dict[str, Sketch] = field(default_factory=lambda: {name: Sketch() for name in LATENCIES})
    sums: dict[str, float] = field(default_factory=dict)
    """Requests and tokens by what became of them."""
    met: dict[str, int] = field(default_factory=dict)
    """Requests that met each objective."""
    per_second: Floats = field(default_factory=lambda: np.zeros(0))
    """Tokens of decoding sequences in each second from the origin on."""
    firsts: Floats = field(default_factory=lambda: np.zeros(0))
    """First tokens in each second."""
    again: Floats = field(default_factory=lambda: np.zeros(0))
    """Ends of pauses in each second: a prompt that is computed again ends with a token that no iteration counts."""
    last: int = 0
    """The last token of a request that finished."""
    at_once: int = 0
    """Most requests between arrival and finish at once."""

    # Rows -----------------------------------------------------------------------------------------------------------

    def add_rows(self, replica: ReplicaTotals, rows: Iterations, gaps: Gaps) -> None:
        """Rows of a replica that it gives away, and the gaps between tokens in them."""
        if not len(rows.count):
            return
        length = of.lengths(rows) / SECOND
        replica.rows += len(rows.count)
        replica.iterations += int(rows.count.sum())
        replica.busy += float(length.sum())
        replica.decoding += float(rows.decodes @ length)
        replica.used += float(rows.mean_blocks @ length)
        replica.most_blocks = max(replica.most_blocks, int(rows.last_blocks.max()))
        replica.decoded += int(rows.decodes @ rows.count)
        ends = of.ends(rows)
        replica.last = max(replica.last, int(ends.max()))
        for part in gaps.parts():
            self.sketches["itl"].add(part.gap / MILLISECOND, part.count)
        first = (int(rows.start.min()) - self.origin) // SECOND
        bins = (int(ends.max()) - self.origin) // SECOND + 1 - first
        tokens = of.tokens_per_bin(rows, self.origin + first * SECOND, SECOND, bins)
        self.per_second = _grown(self.per_second, first, tokens)

    # Requests -------------------------------------------------------------------------------------------------------

    def add_requests(self, requests: RequestRecords) -> None:
        """Some requests; all are done or nothing happens any more."""
        done, begun = requests.status == FINISHED, requests.scheduled >= 0
        times = latencies(requests)
        for name, values in (("ttft", times.ttft), ("tpot", times.tpot[times.several]), ("e2el", times.e2el)):
            self.sketches[name].add(values)
        self.sketches["queue"].add((requests.scheduled - requests.arrival)[done & begun] / MILLISECOND)
        counted = {
            "asked": requests.arrival >= 0,
            "completed": done,
            "failed": np.isin(requests.status, (REJECTED, FAILED)),
            "unfinished": (requests.status == IN_FLIGHT) & (requests.arrival >= 0),
        }
        found = {name: float(np.count_nonzero(which)) for name, which in counted.items()}
        found["prompts"], found["outputs"] = (float(c[done].sum()) for c in (requests.prompt, requests.generated))
        found["begun"], found["cached"] = (float(c[begun].sum()) for c in (requests.prompt, requests.cached))
        found["preemptions"], found["generated"] = float(requests.preemptions.sum()), float(requests.generated.sum())
        for name, value in found.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        for name, met in (attained(times, self.slo) if self.slo is not None else {}).items():
            self.met[name] = self.met.get(name, 0) + int(met.sum())
        seconds = (requests.first_token[requests.first_token >= 0] - self.origin) // SECOND
        if len(seconds):
            begin = int(seconds.min())
            self.firsts = _grown(self.firsts, begin, np.bincount(seconds - begin).astype(np.float64))
        self.last = max(self.last, int(requests.finish.max(initial=self.origin)))

    def add_pauses(self, ends: Ints) -> None:
        """Ends of pauses in the course of requests, in ticks."""
        self.again = _grown(self.again, 0, np.bincount((ends - self.origin) // SECOND).astype(np.float64))

    # Figures --------------------------------------------------------------------------------------------------------

    @property
    def duration(self) -> float:
        """Seconds from the first arrival to the last token, to the end of all work where some did not finish."""
        lasts = (
            [replica.last for replica in self.replicas] if self.sums.get("completed") != self.sums.get("asked") else []
        )
        return (max([self.last, *lasts]) - self.origin) / SECOND

    def metrics(self) -> dict[str, float]:
        """The figures that do not need the profiles of devices, under the names of `serving_metrics`."""
        sums, duration = self.sums, self.duration
        devices = sum(replica.devices for replica in self.replicas)
        outputs = sums["outputs"]
        found = {
            "duration": duration,
            **{name: sums[name] for name in ("completed", "failed", "unfinished")},
            "total_input_tokens": sums["prompts"],
            "total_output_tokens": outputs,
            "request_throughput": per(sums["completed"], duration),
            "output_throughput": per(outputs, duration),
            "total_token_throughput": per(sums["prompts"] + outputs, duration),
            "output_throughput_per_device": per(per(outputs, duration), devices),
            "max_output_tokens_per_s": self._most_tokens(),
            "max_concurrent_requests": float(self.at_once),
        }
        if self.met:
            found["request_goodput"] = per(self.met["slo"], duration)
        for name in LATENCIES[:-1]:
            found |= latency_figures(name, self.sketches[name].spread())
        found |= {f"{name}_attainment": per(met, sums["asked"]) for name, met in self.met.items()}
        return found | self._queue() | self._work(duration)

    def _most_tokens(self) -> float:
        """Output tokens of the busiest second, counted as `service.tokens_per_bin` does."""
        decoded, again = sum(replica.decoded for replica in self.replicas), float(self.again.sum())
        missing, tokens = self.sums["generated"] - float(self.firsts.sum()) - decoded, self.per_second.copy()
        if missing > again and decoded:  # iterations that verify drafts give several: the mean stands for each
            tokens *= 1.0 + (missing - again) / decoded
            missing = again
        tokens = _grown(tokens, 0, self.firsts)
        return float(_grown(tokens, 0, self.again * max(missing / max(again, 1.0), 0.0)).max(initial=0.0))

    def _queue(self) -> dict[str, float]:
        waited = self.sketches["queue"].spread()
        return {
            "mean_queue_ms": waited.mean,
            "p99_queue_ms": waited.percentiles[PERCENTILES.index(99)],
            "prefix_cache_hit_rate": per(self.sums["cached"], self.sums["begun"]),
            "preemptions": self.sums["preemptions"],
        }

    def _work(self, duration: float) -> dict[str, float]:
        deciding = [replica for replica in self.replicas if replica.role != "prefill"]
        devices = sum(replica.devices for replica in self.replicas)
        return {
            "mean_batch": per(sum(r.decoding for r in deciding), sum(r.busy for r in deciding)),
            "mean_kv_usage": share_of(
                sum(per(r.used, r.blocks) for r in self.replicas), sum(r.busy for r in self.replicas)
            ),
            "max_kv_usage": max((per(r.most_blocks, r.blocks) for r in self.replicas), default=0.0),
            "utilisation": share_of(sum(r.worked * r.devices for r in self.replicas), devices * duration),
        }


def _grown(level: Floats, first: int, more: Floats) -> Floats:
    """A histogram with another one, from bin `first` on, added; as long as it needs to be."""
    stop = first + len(more)
    if stop > len(level):
        wider = np.zeros(max(stop, len(level) + len(level) // 4))
        wider[: len(level)] = level
        level = wider
    level[first:stop] += more
    return level
