"""Serving rows as services: limits that a benchmark derives from the memory are derived from ours."""

from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from simulator.errors import InputError
from simulator.interop.rows import serving_limits as limits
from simulator.interop.rows import trtllm_bench
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving import MappedServing, ServingRow, draft_serving
from simulator.interop.rows.stated.lengths import fixed
from simulator.interop.rows.stated.options import options
from simulator.model.parameters import total_parameters
from simulator.serving.costs.footprint import DEFAULT_SHARE
from simulator.serving.fleet.system import resolve
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching


def map_serving_row(row: ServingRow) -> MappedServing:
    """The scenario of a row; raises Refused with the reason where it cannot be simulated."""
    drafted = _roomy(draft_serving(row))
    if drafted.filled:
        return _filled(drafted)
    if not drafted.tuned:
        return drafted
    assumed = list(drafted.assumed)
    try:
        scenario = _tuned(drafted.scenario, assumed)
    except (InputError, ValidationError) as error:
        raise Refused(" ".join(str(error).split())) from None
    return replace(drafted, scenario=scenario, tuned=False, assumed=tuple(assumed))


BITS = {"fp8": 8, "int8": 8, "int4": 4, "fp4": 4, "ternary": 2}
"""Of a weight at least, by format; 16 else."""
TIGHT, ROOM = 0.65, 0.97
"""Share of the memory from which on weights may leave too little, and the share that a run takes which had to fit."""
SHORTEST = 2048
"""Tokens of an iteration of vLLM's V0 engine at least, whatever its context (vllm/config.py)."""


def _roomy(drafted: MappedServing) -> MappedServing:
    """The row with nearly all of its memory, or a context as short as its requests allow, where the engine's defaults
    have no room for the model: what was measured did fit, with settings that the row does not tell
    (`--gpu-memory-utilization`, `--mem-fraction-static`, `--max-model-len`)."""
    scenario = drafted.scenario
    serving, layout = scenario.serving, scenario.serving.parallel
    if serving.pools or layout is None or options(drafted.row.engine_options).memory_share is not None:
        return drafted
    bits = serving.precision.weight_bits or BITS.get(serving.precision.weights or "bf16", 16)
    held = total_parameters(scenario.model) * bits / 8 / max(layout.devices, layout.ep * (layout.etp or 1))
    tight = held > TIGHT * scenario.cluster.node.accelerator.memory.capacity.value or _shorter(drafted) is not None
    if not tight or _fits(scenario):
        return drafted
    cache = serving.kv_cache.model_copy(update={"memory_share": ROOM, "free_share": None})
    share = f"{100 * ROOM:.0f} % of the memory in use: the run fitted, and the default is too little"
    roomy = _with(drafted, "kv_cache", cache, share)
    if (least := _shorter(drafted)) is not None and not _fits(roomy.scenario):
        batching = serving.batching.model_copy(update={"token_budget": least})
        context = (
            f"started for {least:,} tokens of a sequence: the run fitted, and with the default context it does not"
        )
        roomy = next(filter(_fitting, (_with(one, "batching", batching, context) for one in (drafted, roomy))), roomy)
    return roomy if _fitting(roomy) else drafted


def _shorter(drafted: MappedServing) -> int | None:
    """Tokens of the longest sequence of a row whose engine was to read prompts of its model's whole context at once, as
    V0 of vLLM does where nobody says `--max-model-len`; None of others."""
    serving, row = drafted.scenario.serving, drafted.row
    budget, longest = serving.batching.token_budget, max(serving.context or 0, SHORTEST)
    told = options(row.engine_options)
    if drafted.stack not in limits.V0 or budget is None or told.tokens is not None or told.context is not None:
        return None
    return longest if longest < budget else None


def _with(drafted: MappedServing, field: str, value: Any, why: str) -> MappedServing:
    """A row with a part of its service changed, and why."""
    serving = drafted.scenario.serving.model_copy(update={field: value})
    scenario = drafted.scenario.model_copy(update={"serving": serving})
    return replace(drafted, scenario=scenario, assumed=(*drafted.assumed, why))


def _fitting(drafted: MappedServing) -> bool:
    return _fits(drafted.scenario)


def _fits(scenario: ServingScenario) -> bool:
    """Whether there is room for keys and values. A scenario that cannot be resolved says so later."""
    try:
        return all(system.cost.fits for system in resolve(scenario))
    except (InputError, ValidationError):
        return True


def _filled(drafted: MappedServing) -> MappedServing:
    """The row with the largest batch that its memory holds, of requests that are there until all have ended."""
    scenario = drafted.scenario
    lengths = fixed(scenario.requests.lengths) if scenario.requests.lengths else None
    if lengths is None:
        raise Refused("the batch is not stated, and lengths differ")
    try:
        system = resolve(scenario)[0]
    except (InputError, ValidationError) as error:
        raise Refused(" ".join(str(error).split())) from None
    held = -(-sum(lengths) // system.cost.block_size)
    batch = min(system.cost.blocks // held if system.cost.fits else 1, scenario.stack.max_sequences)
    serving = scenario.serving.model_copy(update={"batching": Batching(policy="static", max_sequences=max(batch, 1))})
    requests = scenario.requests.model_copy(update={"count": max(batch, 1) * serving.replicas})
    changed = scenario.model_copy(update={"serving": serving, "requests": requests})
    assumed = (*drafted.assumed, f"a batch of {max(batch, 1):,}")
    return replace(drafted, scenario=changed, requests=requests.count or 1, filled=False, assumed=assumed)


def _tuned(scenario: ServingScenario, assumed: list[str]) -> ServingScenario:
    """Limits as trtllm-bench derives them; those of the engine where it has no rule."""
    lengths = fixed(scenario.requests.lengths) if scenario.requests.lengths else None
    assert lengths is not None
    serving, stack = scenario.serving, scenario.stack
    most, budget, why = stack.max_sequences, stack.token_budget, "the engine's own, no rule of trtllm-bench is taken"
    if trtllm_bench.ruled(scenario.model, serving.precision):
        layout, memory = serving.parallel, scenario.cluster.node.accelerator.memory.capacity.value
        ranks = max(layout.tp * (layout.dp or 1), layout.ep * (layout.etp or 1))
        devices = trtllm_bench.Devices(memory, ranks, layout.pp)
        share = serving.kv_cache.free_share or stack.free_share or DEFAULT_SHARE
        most, budget = trtllm_bench.limits(scenario.model, serving.precision, devices, lengths, share)
        why = "as trtllm-bench derives them"
    budget = max(budget, lengths[0] + most)
    batching = serving.batching.model_copy(update={"max_sequences": most, "token_budget": budget})
    assumed.append(f"at most {most:,} sequences and {budget:,} tokens an iteration, {why}")
    found = scenario.model_copy(update={"serving": serving.model_copy(update={"batching": batching})})
    resolve(found)  # says what of a layout cannot be
    return found
