"""Serving rows as services: limits that a benchmark derives from the memory are derived from ours."""

from dataclasses import replace

from pydantic import ValidationError

from simulator.errors import InputError
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving import MappedServing, ServingRow, draft_serving, fixed
from simulator.serving.fleet.system import resolve
from simulator.specs.scenario import ServingScenario


def map_serving_row(row: ServingRow) -> MappedServing:
    """The scenario of a row; raises Refused with the reason where it cannot be simulated."""
    drafted = draft_serving(row)
    if not drafted.tuned:
        return drafted
    assumed = list(drafted.assumed)
    try:
        scenario = _tuned(drafted.scenario, assumed)
    except (InputError, ValidationError) as error:
        raise Refused(" ".join(str(error).split())) from None
    return replace(drafted, scenario=scenario, tuned=False, assumed=tuple(assumed))


def _tuned(scenario: ServingScenario, assumed: list[str]) -> ServingScenario:
    """Limits as trtllm-bench derives them from the lengths: as many sequences as the cache holds, whole prompts."""
    alike = fixed(scenario.requests.lengths) if scenario.requests.lengths else None
    assert alike is not None
    for _ in range(2):  # fewer sequences take less memory for their logits
        (system,) = resolve(scenario)
        held = -(-sum(alike) // system.cost.block_size)
        most = min(scenario.stack.max_sequences, max(system.cost.blocks // held, 1))
        budget = max(scenario.stack.token_budget, alike[0] + most)
        batching = scenario.serving.batching.model_copy(update={"max_sequences": most, "token_budget": budget})
        scenario = scenario.model_copy(update={"serving": scenario.serving.model_copy(update={"batching": batching})})
    assumed.append(f"at most {most:,} sequences and {budget:,} tokens an iteration, as trtllm-bench derives them")
    return scenario
