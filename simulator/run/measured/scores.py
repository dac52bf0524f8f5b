"""Serving rows simulated: the figures that a row publishes beside the same of the run.

Where all requests come at once the measured run may be longer than what is simulated: a few times the batch that fits.
From then on a run repeats itself, so that its rest takes the time of the last whole batches in proportion.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving import MOST_AT_ONCE, MappedServing, ServingRow
from simulator.run.serve import ServingRun, run_serving
from simulator.serving.costs.iteration import StageCost
from simulator.serving.fleet.system import System, resolve
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Pool
from simulator.units import TICKS_PER_SECOND

WAVES = 3
"""Batches that are simulated where more requests wait."""
NOT_PRICED = {"replicas", "batching", "kv_cache", "context", "router", "transfer", "first_token"}
"""Keys of a system that what its iterations cost does not depend on."""
KEPT = 12
"""Prices that are kept for rows that share them."""
FIRST = {"ttft_mean_s": "ttft", "ttft_s": "ttft", "ttft_median_s": "ttft_median"}
"""Keys of times to the first token, the one to be scored first, with what of a run stands beside each."""
LATER = {
    "tpot_mean_s": "tpot",
    "tpot_s": "tpot",
    "itl_mean_s": "gap",
    "tbt_s": "gap",
    "tpot_median_s": "tpot_median",
    "e2e_latency_s": "request",
    "e2e_latency_mean_s": "request",
}
"""The same of later tokens, and of whole requests."""
STEPS = ("tpot_mean_s", "itl_mean_s", "itl_s", "tbt_s", "tpot_median_s", "time_per_output_token_s")
"""Times of a token in a single stream, where its rate is not stated."""
LAST = {
    "ttft_p50_s": "ttft_median",
    "tpot_p50_s": "tpot_median",
    "itl_s": "gap",
    "itl_median_s": "gap",
    "itl_p50_s": "gap",
    "time_per_output_token_s": "tpot",
    "latency_s": "request",
    "e2e_latency_median_s": "request_median",
    "e2e_latency_p50_s": "request_median",
}
"""Times that are scored where a row has no other figure."""
SPEEDS = {
    "output_tokens_per_s_per_user": "tpot",
    "output_tokens_per_s_per_user_mean": "tpot",
    "output_tokens_per_s_per_user_p50": "tpot_median",
    "tokens_per_s_per_user": "tpot",
    "tokens_per_s_per_request_mean": "tpot",
}
"""Rates of later tokens of one request, which are scored where a row has nothing else."""
_costs: "OrderedDict[str, tuple[StageCost, ...]]" = OrderedDict()


@dataclass(frozen=True, slots=True)
class Part:
    """One figure of a row and what was simulated for it."""

    metric: str
    measured: float
    predicted: float
    rate: bool
    """Whether more is faster."""

    @property
    def error(self) -> float:
        """Of time: positive is too slow."""
        return (self.measured / self.predicted if self.rate else self.predicted / self.measured) - 1


def scored(mapped: MappedServing, scenario: ServingScenario | None = None) -> tuple[Part, ...]:
    """The figures of a row, or of a variant of its scenario; raises Refused where nothing can be compared."""
    return compared(mapped, run_mapped(mapped, scenario))


def compared(mapped: MappedServing, run: ServingRun) -> tuple[Part, ...]:
    """The figures of a row beside those of its run; raises Refused where nothing can be compared."""
    parts = score(mapped, run)
    if not all(isfinite(part.predicted) and part.predicted > 0 and isfinite(part.error * 2) for part in parts):
        raise Refused("a figure that cannot be compared")
    return parts


def run_mapped(mapped: MappedServing, scenario: ServingScenario | None = None) -> ServingRun:
    """The run of a row; raises Refused where the model or its requests do not fit."""
    scenario = scenario or mapped.scenario
    systems = shared_costs(scenario, resolve(scenario))
    if not all(system.cost.fits for system in systems):
        raise Refused("the model does not fit into the memory")
    count = scenario.requests.count or 1
    if mapped.steady:
        batch = max(batch_that_fits(scenario, systems[0]), 1) * systems[0].replicas
        count = min(mapped.requests, WAVES * batch, MOST_AT_ONCE)
    changed = scenario.requests.model_copy(update={"count": count})
    scenario = scenario.model_copy(update={"requests": changed})
    run = run_serving(scenario, systems=systems, silent=True)
    if min(run.ledger.finish) < 0:
        raise Refused("requests do not fit into the memory")
    return run


def batch_that_fits(scenario: ServingScenario, system: System) -> int:
    """Requests that run at once on a replica when all wait."""
    lengths = scenario.requests.lengths
    assert lengths is not None
    prompt, output = lengths.prompt.fixed, lengths.output.fixed
    if prompt is None or output is None:
        return min(system.rules.max_sequences, 512)
    size = system.cost.block_size
    held = -(-round(prompt + output) // size)
    if not system.rules.max_sequences or not held:
        return 1
    return min(system.rules.max_sequences * len(system.cost.stages), system.cost.blocks // held)


def shared_costs(scenario: ServingScenario, systems: tuple[System, ...]) -> tuple[System, ...]:
    """Systems that share what was priced for earlier rows of the same model, machine, layout, formats and software."""
    return tuple(
        _shared(scenario, system, pool) for system, pool in zip(systems, scenario.serving.all_pools, strict=True)
    )


def _shared(scenario: ServingScenario, system: System, pool: Pool) -> System:
    key = "|".join(
        (
            scenario.cluster.model_dump_json(),
            scenario.model.name,
            scenario.serving.model_dump_json(exclude=NOT_PRICED | {"pools"}),
            pool.model_dump_json(exclude=NOT_PRICED | {"name", "role", "partition", "cluster"}),
            scenario.stack.model_dump_json(),
            str(system.cost.stages[0].graphs),
            str(system.cost.stages[0].host_ticks),  # fewer where several iterations are scheduled at once
            str(system.placements[0].own[0]),
        )
    )
    known = _costs.setdefault(key, system.cost.stages)
    _costs.move_to_end(key)
    while len(_costs) > KEPT:
        _costs.popitem(last=False)
    return replace(system, cost=replace(system.cost, stages=known))


# ---- scores --------------------------------------------------------------------------------------------------------


def score(mapped: MappedServing, run: ServingRun) -> tuple[Part, ...]:
    """The figures of a row beside the simulated ones; raises Refused where the row has none that is scored."""
    match mapped.row.kind:
        case "offline_throughput" | "static_batch_throughput" | "decode_throughput" | "single_stream_decode":
            return (_answers(mapped, run),)
        case "single_stream_prefill" | "prefill_throughput" | "first_token_latency":
            return (_prompts(mapped, run),)
    return _latencies(mapped, run)


DECODES = "decode_throughput"
"""Kind of rows of the tokens that come after the first of each request."""


def duration(mapped: MappedServing, run: ServingRun) -> float:
    """Seconds of the measured run, continued in proportion where fewer requests were simulated."""
    finish = np.sort(np.array(run.ledger.finish, np.int64)) / TICKS_PER_SECOND
    more = mapped.requests - len(finish)
    begin = max(run.ledger.arrival[0], 0) / TICKS_PER_SECOND
    if mapped.cached or mapped.row.kind == DECODES:  # from the last of the first tokens, which takes an iteration
        first, tokens = max(run.ledger.first_token) / TICKS_PER_SECOND, max(run.ledger.output)
        begin = first - (float(finish[-1]) - first) / max(tokens - 1, 1)
    total = float(finish[-1]) - begin
    if more <= 0:
        return total
    wave = len(finish) // WAVES
    last, first = len(finish) - wave - 1, len(finish) - 2 * wave - 1
    return total + more * float(finish[last] - finish[first]) / wave


def _answers(mapped: MappedServing, run: ServingRun) -> Part:
    row, ledger = mapped.row, run.ledger
    spread = len(ledger.prompt)
    output, prompt = sum(ledger.output) / spread, sum(ledger.prompt) / spread
    if row.kind == "single_stream_decode":
        first = ledger.first_token[0]
        step = (ledger.finish[0] - first) / TICKS_PER_SECOND / max(ledger.output[0] - 1, 1)
        for metric in ("tpot_s", *(() if row.metrics.get("output_tokens_per_s") else STEPS)):
            if row.metrics.get(metric):
                return Part(metric, _figure(row, metric), step, False)
        return Part("output_tokens_per_s", _figure(row, "output_tokens_per_s"), 1 / step, True)
    time = duration(mapped, run)
    devices, nodes = row.num_accelerators or 1, row.num_nodes or 1
    for metric, tokens in (
        ("output_tokens_per_s", output),
        ("output_tokens_per_s_per_node", output / nodes),
        ("output_tokens_per_s_per_accel", output / devices),
        ("total_tokens_per_s", output + prompt),
        ("total_tokens_per_s_per_accel", (output + prompt) / devices),
        ("requests_per_s", 1),
    ):
        if row.metrics.get(metric):
            return Part(metric, _figure(row, metric), mapped.requests * tokens / time, True)
    if row.metrics.get("makespan_s"):
        return Part("makespan_s", _figure(row, "makespan_s"), time, False)
    if found := _rarer(mapped, run):
        return found
    if row.metrics.get("e2e_latency_s"):
        return Part("e2e_latency_s", _figure(row, "e2e_latency_s"), time, False)
    raise Refused("no latency and no rate in the row")


def _prompts(mapped: MappedServing, run: ServingRun) -> Part:
    row, ledger = mapped.row, run.ledger
    time = (max(ledger.first_token) - max(ledger.arrival[0], 0)) / TICKS_PER_SECOND
    devices, nodes = row.num_accelerators or 1, row.num_nodes or 1
    if row.metrics.get("ttft_s"):
        return Part("ttft_s", _figure(row, "ttft_s"), time, False)
    shares = {"": 1, "_per_accel": devices, "_per_node": nodes}
    for metric, share in ((f"input_tokens_per_s{each}", share) for each, share in shares.items()):
        if row.metrics.get(metric):
            return Part(metric, _figure(row, metric), sum(ledger.prompt) / share / time, True)
    for metric in ("ttft_mean_s", "ttft_median_s", "ttft_p50_s", "prefill_time_s", "latency_s"):
        if row.metrics.get(metric):
            return Part(metric, _figure(row, metric), time, False)
    raise Refused("no time to the first token in the row")


def _latencies(mapped: MappedServing, run: ServingRun) -> tuple[Part, ...]:
    """Time to the first token and per token after it, the whole time of a request where no other is known; means before
    medians. A rate where the row has no latency."""
    row, known, found = mapped.row, _times(run), []
    for choices in FIRST, LATER:
        metric = next((name for name in choices if row.metrics.get(name)), None)
        if metric is not None:
            found.append(Part(metric, _figure(row, metric), known[choices[metric]], False))
    return tuple(found) or (_answers(mapped, run),)


def _rarer(mapped: MappedServing, run: ServingRun) -> Part | None:
    """A figure of a row that has none of the usual ones: of one request, in other words."""
    row, known = mapped.row, _times(run)
    for metric, time in LAST.items():
        if row.metrics.get(metric):
            return Part(metric, _figure(row, metric), known[time], False)
    for metric, time in SPEEDS.items():
        if row.metrics.get(metric) and known[time]:
            return Part(metric, _figure(row, metric), 1 / known[time], True)
    return None


def _times(run: ServingRun) -> dict[str, float]:
    """Means and medians over requests in seconds, 0 where answers have one token."""
    ledger = run.ledger
    arrival, first, finish = (np.array(c, np.int64) for c in (ledger.arrival, ledger.first_token, ledger.finish))
    later = np.maximum(np.array(ledger.output, np.int64) - 1, 1)
    several = np.array(ledger.output) > 1
    tokens = ((finish - first) / later)[several] if several.any() else np.zeros(1)
    ticks = {
        "ttft": (first - arrival).mean(),
        "ttft_median": np.median(first - arrival),
        "tpot": tokens.mean(),
        "tpot_median": np.median(tokens),
        "gap": (finish - first).sum() / later.sum(),
        "request": (finish - arrival).mean(),
        "request_median": np.median(finish - arrival),
    }
    return {name: float(time / TICKS_PER_SECOND) for name, time in ticks.items()}


def _figure(row: ServingRow, metric: str) -> float:
    value = row.metrics.get(metric)
    if not value or value < 0:
        raise Refused(f"no {metric} in the row")
    return float(value)
