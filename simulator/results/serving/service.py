"""Headline figures of a serving run, with the names and the definitions of `vllm bench serve` (vLLM 0.11 and later).

Latencies are those of requests that finished: TTFT from arrival to the first token, E2EL from arrival to the last one,
TPOT = (E2EL - TTFT) / (tokens - 1) of requests with more than one token, ITL the times between two tokens of a request.
Throughputs divide by `duration`, from the first arrival to the last token. Percentiles interpolate linearly. What vLLM
does not report is ours and explained in docs/reference/metrics.md. Pure functions of what was simulated.
"""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.metrics import PERCENTILES
from simulator.results.result import Gaps, RequestRecords, Service
from simulator.results.sample import Spread, spread, spread_of
from simulator.results.serving import fleet, model_routing
from simulator.results.serving import iterations as of
from simulator.results.serving.cache_tiers import CacheTierUse
from simulator.units import TICKS_PER_SECOND

FINISHED, REJECTED, IN_FLIGHT, FAILED = range(4)
"""Values of `RequestRecords.status`."""
SECOND, MILLISECOND = TICKS_PER_SECOND, TICKS_PER_SECOND // 1000
"""Picoseconds."""
MOST_GAPS = 1 << 20
"""Different gaps between tokens that are sorted in one piece, and requests that are looked at in one."""

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Objectives(Protocol):
    """What each request is promised, in seconds; None where nothing is."""

    @property
    def ttft(self) -> float | None:
        """Time to first token."""

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first."""

    @property
    def e2e(self) -> float | None:
        """Time to the last token."""


class Latencies(NamedTuple):
    """Milliseconds of each finished request, in the order of arrival."""

    ttft: Floats
    tpot: Floats
    """0 where a request has a single token, as vLLM counts for goodput; those are left out of its percentiles."""
    e2el: Floats
    several: Bools
    """Whether a request has more than one token."""


def serving_metrics(
    service: Service,
    slo: Objectives | None = None,
    *,
    prices: Mapping[str, float | None] | None = None,
    energy_j: float | None = None,
    peak_memory: float | None = None,
) -> dict[str, float]:
    """The figures of a serving run by their names; NaN for those of an empty sample.

    `prices` are US dollars per second by the names that replicas call their devices, `energy_j` what all devices took,
    as far as known; `peak_memory` is in bytes, of the fullest device.
    """
    duration = seconds(span(service))
    found = _throughput(service, duration)
    if slo is not None and (goals := attainment(service, slo)):
        found["request_goodput"] = per(float(goals["slo"].sum()), duration)
    times = latencies(service.requests)
    found |= latency_figures("ttft", spread(times.ttft)) | latency_figures("tpot", spread(times.tpot[times.several]))
    found |= latency_figures("itl", _between_tokens(service.gaps))
    found |= latency_figures("e2el", spread(times.e2el))
    if slo is not None:
        asked = int((service.requests.arrival >= 0).sum())
        found |= {f"{name}_attainment": per(float(met.sum()), asked) for name, met in attainment(service, slo).items()}
    found |= _queue(service.requests, asked_before(service)) | tier_figures(service) | adapter_figures(service)
    found |= finetuning_figures(service) | _work(service, duration)
    if service.models is not None:
        found |= model_routing.figures(service.models, len(service.requests.arrival))
    if service.fleet is not None:
        found |= fleet.figures(service.fleet, *span(service), len(service.replicas))
    if peak_memory is not None:
        found["peak_memory_bytes"] = peak_memory
    held = zip(service.replicas, held_seconds(service), strict=True)
    rented = [(replica.devices * each, replica.device) for replica, each in held]
    return found | economy(rented, prices or {}, energy_j, found["total_output_tokens"])


def _between_tokens(gaps: Gaps) -> Spread:
    """The spread of the milliseconds between two tokens, of many of them part by part."""
    if sum(len(part.gap) for part in gaps.parts()) <= MOST_GAPS:
        return spread(gaps.gap / MILLISECOND, gaps.count)
    return spread_of(lambda: ((part.gap, part.count) for part in gaps.parts() if len(part.gap)), MILLISECOND)


def span(service: Service) -> tuple[int, int]:
    """First arrival and last token in picoseconds; where some did not finish, the end of the last iteration."""
    requests = service.requests
    came = requests.arrival[requests.arrival >= 0]
    begin = int(came.min()) if len(came) else 0
    end = int(requests.finish.max(initial=begin))
    if (requests.status != FINISHED).any():
        lasts = [int(of.ends(replica.iterations).max(initial=end)) for replica in service.replicas]
        end = max(lasts, default=end)
    return begin, end


def held_seconds(service: Service) -> list[float]:
    """Seconds of the run in which each replica had its devices."""
    begin, end = span(service)
    if service.fleet is None:
        return [(end - begin) / SECOND] * len(service.replicas)
    held: list[float] = service.fleet.held(begin, end, len(service.replicas)).tolist()
    return held


def seconds(stretch: tuple[int, int]) -> float:
    """Seconds from one moment to another."""
    return (stretch[1] - stretch[0]) / SECOND


def latencies(requests: RequestRecords) -> Latencies:
    """Latencies of the finished requests."""
    done = requests.status == FINISHED
    ttft, e2el = (requests.first_token - requests.arrival)[done], (requests.finish - requests.arrival)[done]
    tokens = requests.generated[done]
    tpot = (e2el - ttft) / np.maximum(tokens - 1, 1) / MILLISECOND
    return Latencies(ttft / MILLISECOND, np.where(tokens > 1, tpot, 0.0), e2el / MILLISECOND, tokens > 1)


def by_priority(service: Service) -> dict[int, dict[str, float]]:
    """For each priority class with requests, where there are several: how many came and finished, and their TTFT, TPOT,
    E2EL and queueing time by the names of the metrics."""
    requests = service.requests
    priority = requests.priority[requests.arrival >= 0]
    if not len(priority) or (priority == priority[0]).all():
        return {}
    classes = np.unique(priority).tolist()
    came, before = requests.arrival >= 0, asked_before(service)
    return {one: _of_class(requests, (requests.priority == one) & came, before) for one in classes}


def by_difficulty(service: Service) -> dict[str, Mapping[str, float]]:
    """The same for each difficulty of requests of several models, with what `model_routing.by_difficulty` adds."""
    if service.models is None:
        return {}
    requests, before = service.requests, asked_before(service)
    came = requests.arrival >= 0
    return model_routing.by_difficulty(service.models, lambda mine: _of_class(requests, mine & came, before))


def asked_before(service: Service) -> Ints | int:
    """Picoseconds that each request was with other models before it was sent to the one that answered it."""
    return 0 if service.models is None else service.models.before(len(service.requests.arrival))[0]


def _of_class(requests: RequestRecords, members: Bools, before: Ints | int = 0) -> dict[str, float]:
    mine = RequestRecords(**{field.name: getattr(requests, field.name)[members] for field in fields(RequestRecords)})
    times = latencies(mine)
    found = {"requests": float(members.sum()), "completed": float(len(times.ttft))}
    found |= latency_figures("ttft", spread(times.ttft)) | latency_figures("tpot", spread(times.tpot[times.several]))
    queue = _queue(mine, before if isinstance(before, int) else before[members])
    return (
        found | latency_figures("e2el", spread(times.e2el)) | {n: queue[n] for n in ("mean_queue_ms", "p99_queue_ms")}
    )


def by_tenant(service: Service) -> dict[str, dict[str, float]]:
    """For each tenant: how many of its requests came, finished, were turned away and failed; TTFT, TPOT, E2EL and
    queueing time by the names of the metrics; output tokens/s; and the share of all its requests that met its
    objectives, where it has some."""
    record, requests = service.fleet, service.requests
    if record is None or not record.tenants:
        return {}
    found, lasted = {}, seconds(span(service))
    for number, tenant in enumerate(record.tenants):
        members = (record.tenant == number) & (requests.arrival >= 0)
        mine = _of_class(requests, members, asked_before(service))
        status = requests.status[members]
        mine["rejected"], mine["lost"] = float((status == REJECTED).sum()), float((status == FAILED).sum())
        mine["output_throughput"] = per(
            float(requests.generated[members & (requests.status == FINISHED)].sum()), lasted
        )
        met = attained(_latencies_of(requests, members), tenant)
        if met:
            mine["slo_attainment"] = per(float(met["slo"].sum()), float(members.sum()))
        found[tenant.name] = mine
    return found


def _latencies_of(requests: RequestRecords, members: Bools) -> Latencies:
    """Latencies of some of the finished requests."""
    done = members[requests.status == FINISHED]
    return Latencies(*(column[done] for column in latencies(requests)))


def attainment(service: Service, slo: Objectives) -> dict[str, Bools]:
    """For each finished request whether it met each objective that there is and, as `slo`, all of them.

    Requests that did not finish have met nothing and are not in it.
    """
    return attained(latencies(service.requests), slo)


def attained(times: Latencies, slo: Objectives) -> dict[str, Bools]:
    """The same of given latencies."""
    goals = (("ttft", times.ttft, slo.ttft), ("tpot", times.tpot, slo.tpot), ("e2el", times.e2el, slo.e2e))
    met = {name: measured <= goal * 1e3 for name, measured, goal in goals if goal is not None}
    return {"slo": np.logical_and.reduce(list(met.values())), **met} if met else {}


def tokens_per_bin(service: Service, origin: int, width: int, bins: int) -> Floats:
    """Tokens that came out in each of `bins` stretches of `width` picoseconds from `origin` on."""
    requests = service.requests
    tokens: Floats = np.zeros(bins)
    for replica in service.replicas:
        tokens += of.tokens_per_bin(replica.iterations, origin, width, bins)
    first = requests.first_token[requests.first_token >= 0]
    # A prompt that is computed again after a preemption ends with a token that no decoding iteration counts.
    decoded = sum(int((r.iterations.decodes * r.iterations.count).sum()) for r in service.replicas)
    missing = int(requests.generated.sum()) - len(first) - decoded
    again = service.pauses[:, 2]
    if missing > len(again) and decoded:  # iterations that verify drafts give several: the mean stands for each
        tokens *= 1.0 + (missing - len(again)) / decoded
        missing = len(again)
    tokens += _histogram(first, np.ones(len(first)), origin, width, bins)
    weight = min(max(missing / max(len(again), 1), 0.0), 1.0)
    return tokens + _histogram(again, np.full(len(again), weight), origin, width, bins)


def _histogram(moments: Ints, weights: Floats, origin: int, width: int, bins: int) -> Floats:
    at = (moments - origin) // width
    inside = (at >= 0) & (at < bins)
    return np.asarray(np.bincount(at[inside], weights[inside], bins)[:bins], np.float64)


def _throughput(service: Service, duration: float) -> dict[str, float]:
    requests = service.requests
    done = requests.status == FINISHED
    completed, prompts = float(done.sum()), float(requests.prompt[done].sum())
    outputs = float(requests.generated[done].sum())
    devices = sum(replica.devices for replica in service.replicas)
    rates = tokens_per_bin(service, span(service)[0], SECOND, int(np.ceil(duration)) + 1)
    return {
        "duration": duration,
        "completed": completed,
        "failed": float(((requests.status == REJECTED) | (requests.status == FAILED)).sum()),
        "unfinished": float(((requests.status == IN_FLIGHT) & (requests.arrival >= 0)).sum()),
        "total_input_tokens": prompts,
        "total_output_tokens": outputs,
        "request_throughput": per(completed, duration),
        "output_throughput": per(outputs, duration),
        "total_token_throughput": per(prompts + outputs, duration),
        "output_throughput_per_device": per(per(outputs, duration), devices),
        "max_output_tokens_per_s": float(rates.max()),
        "max_concurrent_requests": float(concurrent(requests.arrival[done], requests.finish[done])),
    }


def concurrent(arrival: Ints, finish: Ints) -> int:
    """Most requests between arrival and finish at once; one that leaves makes room for one that comes."""
    if (arrival[1:] < arrival[:-1]).any():
        arrival = np.sort(arrival)
    most = 0
    for first in range(0, len(arrival), MOST_GAPS):
        some = arrival[first : first + MOST_GAPS]
        before = finish < some[0]
        meanwhile = np.sort(finish[~before & (finish <= some[-1])])
        gone = np.count_nonzero(before) + np.searchsorted(meanwhile, some, side="right")
        most = max(most, int((np.arange(first + 1, first + len(some) + 1) - gone).max()))
    return most


def latency_figures(name: str, found: Spread) -> dict[str, float]:
    """A latency's figures by the names of the metrics."""
    keys = {f"mean_{name}_ms": found.mean, f"median_{name}_ms": found.median, f"std_{name}_ms": found.std}
    return keys | {f"p{p}_{name}_ms": value for p, value in zip(PERCENTILES, found.percentiles, strict=True)}


def _queue(requests: RequestRecords, before: Ints | int = 0) -> dict[str, float]:
    """Waiting for the first iteration of the model that answered, from when a request was sent there."""
    begun = (requests.status == FINISHED) & (requests.scheduled >= 0)
    waited = spread((requests.scheduled - requests.arrival - before)[begun] / MILLISECOND)
    return {
        "mean_queue_ms": waited.mean,
        "p99_queue_ms": waited.percentiles[PERCENTILES.index(99)],
        "prefix_cache_hit_rate": per(float(requests.cached[requests.scheduled >= 0].sum()), _begun(requests)),
        "preemptions": float(requests.preemptions.sum()),
    }


def _begun(requests: RequestRecords) -> float:
    """Tokens of prompts that were worked on."""
    return float(requests.prompt[requests.scheduled >= 0].sum())


def tier_hits(tier: CacheTierUse, service: Service) -> float:
    """Share of the tokens of all prompts that were looked up in tiers which came from this one."""
    return per(float(tier.hit_tokens), float(sum(one.prompt_tokens for one in service.tiers)))


def tier_figures(service: Service) -> dict[str, float]:
    """What came from memories below the devices'; nothing where there are none."""
    if not service.tiers:
        return {}
    waited = spread(service.load_waits / MILLISECOND)
    return {
        "tier_hit_rate": sum(tier_hits(tier, service) for tier in service.tiers),
        "tier_bytes_read": sum(tier.read for tier in service.tiers),
        "tier_bytes_written": sum(tier.written for tier in service.tiers),
        "mean_tier_load_ms": waited.mean,
        "p99_tier_load_ms": waited.percentiles[PERCENTILES.index(99)],
    }


def adapter_figures(service: Service) -> dict[str, float]:
    """What became of adapters; nothing where there are none."""
    use = service.adapters
    if use is None:
        return {}
    return {
        "adapter_hit_rate": per(float(use.hits), float(use.requests)),
        "adapter_bytes_read": use.read,
        "mean_adapter_load_ms": use.mean_wait / 1e-3,
    }


def finetuning_figures(service: Service) -> dict[str, float]:
    """What was trained beside serving; nothing where nothing was."""
    use = service.finetuning
    return {} if use is None else {"finetuning_throughput": per(float(use.tokens), use.duration)}


def _work(service: Service, duration: float) -> dict[str, float]:
    """What the replicas did: sequences at once, use of the caches, share of time in which they worked."""
    busy = sequences = decoding = usage = at_most = 0.0
    held = held_seconds(service)
    for replica in service.replicas:
        rows = replica.iterations
        length = of.lengths(rows) / SECOND
        usage += per(float((rows.mean_blocks * length).sum()), replica.blocks)
        at_most = max(at_most, per(float(rows.last_blocks.max(initial=0)), replica.blocks))
        busy += float(length.sum())
        if replica.role != "prefill":
            decoding += float(length.sum())
            sequences += float((rows.decodes * length).sum())
    rented = sum(replica.devices * each for replica, each in zip(service.replicas, held, strict=True))
    return {
        "mean_batch": per(sequences, decoding),
        "mean_kv_usage": share_of(usage, busy),
        "max_kv_usage": at_most,
        "utilisation": share_of(sum(r.busy * r.devices for r in service.replicas), rented),
    }


def economy(
    rented: Iterable[tuple[float, str]], prices: Mapping[str, float | None], energy: float | None, tokens: float
) -> dict[str, float]:
    """Energy and money, where the profiles of all devices know power and price; `rented` are seconds of devices by the
    names of their kinds."""
    rents = [(seconds, prices.get(device)) for seconds, device in rented]
    found = {} if energy is None else {"energy_j": energy}
    if rents and all(price is not None for _, price in rents):
        found["cost_usd"] = sum(seconds * (price or 0.0) for seconds, price in rents)
    return found | {f"{name}_per_million_tokens": per(value, tokens / 1e6) for name, value in found.items()}


ROUNDED = 1e-9
"""What sums of times may add to a share of all of it."""


def share_of(part: float, whole: float) -> float:
    """A part of a whole; 1 where rounding lifts it above that."""
    found = per(part, whole)
    return 1.0 if 1.0 < found < 1.0 + ROUNDED else found


def per(amount: float, size: float) -> float:
    """A ratio; NaN where there is nothing to divide by."""
    return amount / size if size else float("nan")
