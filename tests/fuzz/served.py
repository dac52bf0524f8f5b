"""Random services with encoders, with parts of the cache on each device (Helix), and of plain fleets in arrays."""

import json
from contextlib import ExitStack
from random import Random
from typing import Any
from unittest.mock import patch

from simulator.serving import compiled
from simulator.serving.compiled import machine
from simulator.serving.compiled.kernel import advance
from tests.fuzz import fleets, semantics
from tests.fuzz.drawing import some
from tests.fuzz.harness import Answer, Input, answered


def encoders(random: Random) -> Input:
    """Models with an encoder before the decoder, and keys that suit them or not."""
    document = _service(random, random.choice(("t5-base", "t5-11b", "bart-large", "whisper-large-v3", "flan-t5-xxl")))
    system = document["serving"]
    system["parallel"] = {"tp": random.choice((1, 1, 2))} | some(random, {"pp": (2,)}, 0.05)
    system["batching"] = some(random, _BATCHES, 0.4)
    system |= some(random, {"router": ("least-outstanding", "prefix-aware"), "overlap": ({"batches": "two"},)}, 0.2)
    system["kv_cache"] = some(random, _CACHES, 0.1)
    if random.random() < 0.05:
        system["pools"] = [{"name": role, "role": role} for role in ("prefill", "decode")]
    return fleets.checked(document, {}, random)


_BATCHES = {
    "policy": ("static", "orca", "sarathi", "vllm-v0", "vllm-v1", "whole-prompts", "prefill-first"),
    "token_budget": (64, 2048, 8192),
    "max_sequences": (1, 4, 64),
}
_CACHES = {"blocks": (50, 2000), "prefix_caching": ("block", "radix"), "preemption": ("swap", "recompute")}


def helix(random: Random) -> Input:
    """Devices of a tensor-parallel group that hold parts of the cached tokens in place of copies."""
    latent = {"extends": "models/deepseek-v3", "layers": 4, "hidden": 1024, "experts": 16, "expert_groups": 4}
    grouped = {"extends": "models/llama-3-8b", "layers": 4, "kv_heads": random.choice((1, 1, 2, 4))}
    document = _service(random, random.choice((latent, grouped, {"extends": "models/gpt3-1.3b", "layers": 4})))
    system, tp = document["serving"], random.choice((2, 4, 8, 8))
    layout = {"tp": tp, "dcp": random.choice((tp, tp // 2, tp // 2, 2, 8, 3))}
    layout |= some(random, {"pp": (2,)}, 0.1) | some(random, {"dcp_exchange": ("gather", "all-to-all")}, 0.8)
    if document["model"] == latent:
        layout |= random.choice(({}, {"ep": tp}, {"etp": tp}))
    system |= {"parallel": layout, "replicas": random.choice((1, 8 // tp)) if "pp" not in layout else 1}
    overlaps = ({"context": "sequences"}, {"context": "sequences", "from_rows": 3}, {"batches": "two"})
    system |= some(random, {"overlap": overlaps, "precision": ({"kv": "fp8"},)}, 0.4)
    system["kv_cache"] = some(random, _CACHES, 0.3)
    if random.random() < 0.15:
        system["speculation"] = {"kind": "n-gram", "draft_length": 2, "acceptance": 0.5}
    return fleets.checked(document, {}, random)


def arrays(random: Random) -> Input:
    """Plain fleets whose answer in arrays, as compiled code has it, is that of the clock."""
    document = _service(random, random.choice(("llama-3-8b", "qwen2.5-1.5b", "mistral-7b", "llama-3.2-1b")))
    system = document["serving"]
    system |= {"replicas": random.choice((1, 2, 4)), "parallel": {"tp": random.choice((1, 2))}}
    system["batching"] = some(random, _BATCHES | {"policy": ("vllm-v1", "sarathi", "vllm-v1", "orca")}, 0.5)
    system["kv_cache"] = some(random, {"blocks": (60, 300), "preemption": ("swap",), "prefix_caching": ("block",)}, 0.3)
    system |= some(random, {"router": ("round-robin", "least-outstanding", "random"), "context": (512,)}, 0.4)
    document["requests"] |= some(random, {"priorities": ([0.5, 0.5],)}, 0.1)
    if random.random() < 0.4:
        document["records"] = random.choice(("all", "sample", "none"))
    words = ["run", "s.yaml", "--json", "-"]

    def check(answer: Answer) -> str | None:
        if answer.code == 2:
            return "said something on standard output" if answer.out else None
        told = json.loads(answer.out)
        if "completed" not in told.get("metrics", {}):
            return None
        if wrong := semantics.serving_faults(told, document):
            return wrong
        with ExitStack() as changed:
            changed.enter_context(patch.object(compiled, "LEAST", 0))
            changed.enter_context(patch.object(machine, "compiled", lambda: advance))
            other = answered(words)
        return None if other == answer else f"differs in arrays: {_apart(answer, other)}"

    return Input(words, {"s.yaml": json.dumps(document).encode()}, check)


def _apart(one: Answer, other: Answer) -> Any:
    """What differs between two answers."""
    if one.code != other.code or not other.out:
        return other.code, other.err[-300:]
    left, right = json.loads(one.out), json.loads(other.out)
    return {key: (left.get(key), right.get(key)) for key in {*left, *right} if left.get(key) != right.get(key)}


def _service(random: Random, model: Any) -> dict[str, Any]:
    """Few requests on one node."""
    lengths = {"prompt": {"lognormal": [200, 0.8], "high": 1500}, "output": {"uniform": [1, random.choice((3, 60))]}}
    return {
        "version": 1,
        "name": "fuzz",
        "cluster": {"extends": f"clusters/{random.choice(('dgx-h100', 'dgx-a100'))}", "nodes": 1},
        "model": f"models/{model}" if isinstance(model, str) else model,
        "stack": random.choice(("vllm", "vllm", "sglang", "tensorrt-llm")),
        "serving": {"replicas": 1},
        "requests": {
            "arrivals": random.choice(({"poisson": "5 /s"}, {"poisson": "80 /s"}, {"at_once": True})),
            "lengths": lengths,
            "count": random.choice((1, 8, 25, 50)),
        },
        "slo": {"ttft": "1 s", "tpot": "50 ms"},
        "seed": random.randrange(5),
    }
