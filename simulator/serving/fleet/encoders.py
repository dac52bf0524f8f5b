"""Replicas of models with an encoder before the decoder: what batches them, how long their sequences are, and what
cannot stand beside them."""

from simulator.errors import InputError, Problem
from simulator.serving.policies import POLICIES
from simulator.specs.model import Model
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Batching, KvCache, Layout, Overlap

WHOLE = "whole-prompts"
"""What batches them where the stack's policy would cut prompts: vLLM turns chunked prefill off for such models."""
LONGEST = 131_072
"""Tokens of the longest sequence where neither scenario nor model says."""


def policy_of(
    scenario: ServingScenario, layout: Layout, batching: Batching, cache: KvCache
) -> tuple[str, tuple[str, ...]]:
    """(name of the policy, what is assumed); InputError for one that cuts prompts, of which an encoder sees all, and
    for what cannot stand beside an encoder."""
    model, name = scenario.model, batching.policy or scenario.stack.policy
    _check(scenario, layout, batching, cache)
    if model.encoder_layers is None or not POLICIES.get(name, "serving.batching.policy").chunked:
        return name, ()
    if batching.policy is not None:
        message = f"`{name}` cuts prompts, and every row of the encoder of {model.name} sees all of them"
        hint = f"leave it out, or write `{WHOLE}`, `orca`, `vllm-v0` or `static`"
        raise InputError(Problem(message, path="serving.batching.policy", hint=hint))
    return WHOLE, (f"prompts are batched whole (`{WHOLE}`): an encoder sees all of them at once",)


def longest(model: Model, written: int | None) -> int:
    """Tokens of the longest sequence: of a model with an encoder its rows and the tokens of the decoder together."""
    if written is not None:
        return written
    if model.encoder_layers is None or model.max_sequence is None:
        return model.max_sequence or LONGEST
    return model.max_sequence + (model.encoder_rows or model.max_sequence)


def _check(scenario: ServingScenario, layout: Layout, batching: Batching, cache: KvCache) -> None:
    """InputError for what cannot stand beside an encoder."""
    serving = scenario.serving
    if scenario.model.encoder_layers is None:
        return
    beside = {
        "serving.kv_cache.prefix_caching": (cache.prefix_caching or "none") != "none",
        "serving.kv_cache.chunks": cache.chunks is not None,
        "serving.kv_cache.tiers": bool(cache.tiers),
        "serving.speculation": serving.speculation is not None,
        "serving.overlap": serving.overlap != Overlap(),
        "serving.adapters": serving.adapters is not None,
        "serving.finetuning": serving.finetuning is not None,
        "serving.weights": serving.weights is not None,
        "serving.remote_attention": serving.remote_attention is not None,
        "serving.models": serving.models is not None,
        "serving.parallel.dcp": layout.dcp > 1,
        "serving.batching.instances": batching.instances > 1,
        "serving.batching.padded": batching.padded,
        "serving.pools": any(pool.role != "both" or pool.speculation or pool.overlap for pool in serving.pools),
        "requests.sessions": scenario.requests.sessions is not None,
    }
    for path in (path for path, there in beside.items() if there):
        message = f"`{path.rpartition('.')[2]}` is not simulated for models with an encoder before the decoder"
        raise InputError(Problem(message, path=path, hint="leave it out, or serve a model with a decoder alone"))
