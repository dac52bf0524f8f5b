"""Random scenarios that make sense, and what must hold of every answer to one."""

import json
from collections.abc import Mapping
from math import isfinite
from random import Random
from typing import Any

from tests.fuzz import beside
from tests.fuzz.drawing import shallow
from tests.fuzz.harness import Answer, Input, answered

CLUSTERS = (
    ("gh200", 1),
    ("dgx-h100", 8),
    ("dgx-h100", 8),
    ("dgx-a100", 8),
    ("generic-h100", 8),
    ("server-8x-rtx-3090", 8),
    ("dgx-1-v100", 8),
    ("mi300x-cluster", 8),
    ("l40s-cluster", 8),
    ("ascend-910b", 8),
    ("gaudi2-cluster", 8),
    ("workstation", 1),
    ("dgx-b200", 8),
)
MODELS = (
    "llama-3.2-1b",
    "llama-3-8b",
    "gpt3-125m",
    "gpt3-1.3b",
    "gpt2-355m",
    "gemma-2b",
    "bloom-560m",
    "qwen2.5-1.5b",
    "mixtral-8x7b",
)
TRAINED: tuple[tuple[Any, tuple[str, ...]], ...] = (
    ({"extends": "models/olmoe-1b-7b", "layers": 4}, ("experts",)),
    ({"extends": "models/qwen1.5-moe-a2.7b", "layers": 4}, ("experts",)),
    ({"extends": "models/deepseek-v3", "layers": 4, "hidden": 1024, "experts": 16, "expert_groups": 4}, ("experts",)),
    ({"extends": "models/llama-3-8b", "layers": 6, "mtp_layers": 1}, ()),
    (
        {
            "extends": "models/llama-3-8b",
            "layers": 6,
            "block_mask": {"block": 64, "local_blocks": 2, "global_blocks": 1},
        },
        (),
    ),
    ({"extends": "models/llama-3-8b", "layers": 8, "block_mask": {"density": 0.3}}, ()),
    ({"extends": "models/llama-3-8b", "layers": 8, "window": 256}, ()),
    ({"extends": "models/gemma-3-1b"}, ()),
    ({"extends": "models/mamba-2-1.3b", "layers": 8}, ()),
    ({"extends": "models/t5-base"}, ("encoder",)),
    ({"extends": "models/whisper-large-v3", "layers": 8, "encoder_layers": 8}, ("encoder",)),
)
"""Models of further kinds, cut so that a step is cheap, and what they have."""
TRAINERS = (
    "megatron-core",
    "deepspeed",
    "fsdp",
    "fsdp2",
    "megatron-deepspeed",
    "megatron-lm-2021",
    "nemo",
    "pytorch-ddp",
)
SERVERS = ("vllm", "vllm-0.5", "vllm-v0", "sglang", "tensorrt-llm", "tgi", "deepspeed-fastgen", "fastertransformer")
SOME_RANKS = 8
"""Ranks up to which a step often has noise, and often runs with all of them beside the merged ones."""
TINY = 1e-9
ROUNDING = 1e-6
"""Relative difference of what is summed in another order."""


def training(random: Random) -> Input:
    """A training step that somebody could want."""
    cluster, per_node = random.choice(CLUSTERS)
    nodes = 1 if per_node == 1 else random.choices((1, 2, 4), (9, 3, 1))[0]
    devices = nodes * per_node
    model, traits = random.choice(TRAINED) if random.random() < 0.6 else (shallow(random, _dense(random)), ())
    schedule = random.choice(SCHEDULES) if random.random() < 0.5 else None
    tp, cp, pp = (random.choice(sizes) for sizes in ((1, 1, 2, 4), (1, 1, 1, 2), (1, 2, 4) if schedule else (1, 1, 2)))
    if tp * cp * pp > devices or "encoder" in traits:
        tp, cp, pp = 1, 1, 1
    dp, micro = devices // (tp * cp * pp), random.choice((1, 1, 2, 4))
    layout = {"tp": tp, "pp": pp, "cp": cp, "zero": random.choice((0, 0, 1, 2, 3))}
    layout |= {"vpp": 2} if schedule in FOLDED and pp > 1 else {}
    layout |= {"cp_kind": random.choice(CONTEXTS)} if cp > 1 and random.random() < 0.7 else {}
    layout |= (
        {"ep": random.choice([one for one in (1, 2, 4, 8) if (cp * dp) % one == 0])} if "experts" in traits else {}
    )
    job: dict[str, Any] = {
        "global_batch": dp * micro * random.choice((1, 2, 4, pp, 2 * pp, 4 * pp)),
        "micro_batch": micro,
        "sequence_length": random.choice((512, 512, 1024, 2048, 4096)),
        "parallel": layout,
    }
    job |= {"schedule": schedule} if schedule else {}
    job |= {"encoder_sequence_length": random.choice((128, 512, 1500))} if "encoder" in traits else {}
    for drawn, often in ((_OPTIONS, 0.3), (_RARE, 0.08), (_ROUTED if "experts" in traits else {}, 0.25)):
        for key, choices in drawn.items():
            if random.random() < often:
                job[key] = random.choice(choices)
    if devices > SOME_RANKS and random.random() < 0.8:
        job.pop("noise", None)
    if "experts" in traits and random.random() < 0.15:
        job |= {"routing": beside.moving(random), "steps": random.choice((2, 5, 12))}
    if random.random() < 0.12:
        job |= {"documents": {"lognormal": [200, 1.0], "high": job["sequence_length"]}}
        job["batching"] = random.choice(_BATCHING)
    if layout["zero"] == 3 and random.random() < 0.4:
        layout.pop("vpp", None)
        job = {key: value for key, value in job.items() if key not in _UNSHARDED} | {
            "sharding": random.choice(_SHARDING)
        }
    if random.random() < 0.05:
        job = {key: value for key, value in job.items() if key in _FORWARD} | {"zeroth_order": random.choice(_ZEROTH)}
        job["parallel"] = {"tp": tp, "zero": random.choice((0, 0, 3))}
    sliced = random.random() < 0.05
    document = {
        "version": 1,
        "name": "fuzz",
        "cluster": _slices(random, nodes) if sliced else {"extends": f"clusters/{cluster}", "nodes": nodes},
        "model": model,
        "stack": "maxtext" if sliced else random.choice(TRAINERS),
        "training": job,
        "seed": random.randrange(5),
    }
    return _checked(document, training_faults, random, unfolded=0.3 if devices <= SOME_RANKS else 0.1)


def _dense(random: Random) -> str:
    return f"models/{random.choice(MODELS)}"


def _slices(random: Random, nodes: int) -> dict[str, Any]:
    """Small slices of a pod, joined by a data-centre network."""
    shape = random.choice(([8, 2], [2, 4], [4, 4]))
    network = {"shape": shape, "slices": {"block": shape, "apart": True}, "largest": shape[0] * shape[1]}
    network |= {"oversubscription": random.choice((1, 4))}
    return {"extends": "clusters/tpu-v5e-multislice", "nodes": nodes, "network": network}


FOLDED = ("interleaved-1f1b", "zb-v", "v-half", "v-min", "breadth-first", "depth-first", "hanayo", "dualpipev")
"""Schedules of several chunks on a device."""
PARTED = ("vocab-1", "vocab-2", "interlaced")
"""Schedules with a part of the vocabulary on every stage."""
SCHEDULES = (*FOLDED, *PARTED, "1f1b", "gpipe", "zb-h1", "zb-h2", "dualpipe", "chimera", "auto", "auto")
CONTEXTS = ("ring", "striped", "zigzag", "all-gather", "ulysses", "usp", "lightseq", "tokenring", "rsa", "halo")
_RARE: Mapping[str, tuple[Any, ...]] = {
    "documents": (100, {"lognormal": [300, 1.0], "high": 4096}, [300, 212], [1], {"uniform": [1, 900]}),
    "tile_tokens": (1, 100, 1024),
    "recompute_modules": (["experts"], ["norm", "activation"], ["latent"]),
    "recompute_layers": (1, 2),
    "recompute_keeps": (["every-second-product", "attention", "reductions"], ["mlp in"], ["products"]),
    "lora": ({}, {"rank": 4, "base_format": "nf4"}),
    "blocking_launches": (True,),
    "offload_layers": (1,),
    "overlap_pipeline": (True, False),
    "overlap_tensor": ("none", "backward", "all", "steps", "tracked"),
    "overlap_gradients": (True, False),
    "optimizer": (
        "muon",
        "adafactor",
        {"name": "muon", "whole": "gathered", "tensor": "distributed"},
        {"name": "sgd", "in_backward": True},
    ),
    "gradient_precision": ("fp32", "bf16"),
}
_SHARDING: tuple[dict[str, Any], ...] = (
    {"levels": {"parameters": 1}},
    {"levels": {"parameters": 2, "gradients": 4}},
    {"levels": {"parameters": 1, "gradients": 2}},
    {"levels": {"parameters": 2}, "gather_format": "int8"},
    {"gather_format": "int8", "secondary": 2},
)
_UNSHARDED = ("schedule", "lora", "blocking_launches", "offload_layers")
"""Keys that are refused beside `sharding`, most often."""
_FORWARD = (
    "global_batch",
    "micro_batch",
    "sequence_length",
    "encoder_sequence_length",
    "parallel",
    "precision",
    "steps",
)
"""Keys that a step of forward passes alone has too."""
_ZEROTH: tuple[dict[str, Any], ...] = (
    {"passes": 1},
    {"passes": 2, "over_ranks": True},
    {"passes": 4, "over_ranks": True, "directions": "sample"},
    {"passes": 5, "scalar_bytes": 1},
)
_BATCHING: tuple[dict[str, Any], ...] = (
    {"policy": "cut"},
    {"policy": "first-fit"},
    {"policy": "balanced", "fill": "context"},
    {"policy": "pad"},
    {"policy": "pad", "fill": "context"},
    {"policy": "bucket", "buckets": [64, 256], "tokens": 4096, "synchronous": True},
    {"policy": "hybrid", "capacity": 2048},
    {"policy": "hybrid", "capacity": 2048, "balance": True},
    {"policy": "flexible", "capacity": 2048},
    {"policy": "first-fit", "disaggregated": 0.1},
    {"policy": "cut", "disaggregated": 0.2, "ping_pong": False},
)
_ROUTED: Mapping[str, tuple[Any, ...]] = {
    "expert_chunks": (2, 3),
    "expert_lanes": ("one",),
    "overlap_experts": (True,),
    "overlap_shared_experts": (True, False),
    "cuda_graphs": (["attention"], ["router"], ["all"]),
    "routing": ({"load": "zipf", "replicas": 1}, {"load": "zipf", "replicas": 20}, {"load": "random", "capacity": 1.1}),
    "dispatcher": ("alltoall", "hierarchical", "allgather", "deepep"),
    "dispatch_precision": ("fp8", "int8"),
}
_OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "recompute": ("none", "full", "selective"),
    "precision": ("bf16", "fp16", "fp32", "fp8", "fp8-rowwise", "fp8-current", "fp8-block", "mxfp8", "nvfp4"),
    "steps": (2, 5),
    "noise": (
        {"jitter": 0.05},
        {"stragglers": {"count": 1, "slowdown": 1.5}},
        {"slow_links": {"count": 1, "factor": 0.5}},
    ),
    "tokens": (10**6,),
}


def serving(random: Random) -> Input:
    """A serving system that somebody could want, and few requests."""
    cluster, per_node = random.choice(CLUSTERS)
    tp = random.choice([size for size in (1, 1, 2, 4) if size <= per_node])
    shape = {"prompt": _length(random), "output": _length(random, 200)}
    document: dict[str, Any] = {
        "version": 1,
        "name": "fuzz",
        "cluster": f"clusters/{cluster}",
        "model": f"models/{random.choice(MODELS)}",
        "stack": random.choice(SERVERS),
        "serving": {"replicas": random.choice((1, 1, per_node // tp)), "parallel": {"tp": tp}},
        "requests": {
            "arrivals": random.choice(ARRIVALS),
            "lengths": random.choice((shape, shape, "sharegpt", "sharegpt-clients", "azure-code")),
            "count": random.choice((1, 2, 5, 15, 25)),
        },
        "slo": {"ttft": "1 s", "tpot": "50 ms"},
        "seed": random.randrange(5),
    }
    for key, choices in _SYSTEM.items():
        if random.random() < 0.25:
            document["serving"][key] = random.choice(choices)
    for key, choices in _ASKED.items():
        if random.random() < 0.15:
            document["requests"][key] = random.choice(choices)
    return _checked(document, serving_faults, random)


ARRIVALS: tuple[dict[str, Any], ...] = (
    {"poisson": "2 /s"},
    {"poisson": "100 /s"},
    {"constant": "10 /s"},
    {"gamma": {"rate": "5 /s", "burstiness": 0.3}},
    {"closed_loop": {"clients": 4}},
    {"closed_loop": {"clients": 3, "rate": "20 /s"}},
    {"at_once": True},
    {"varying": [{"duration": "1 s", "rate": "20 /s"}, {"duration": "2 s", "rate": 0}]},
)
_SYSTEM: Mapping[str, tuple[Any, ...]] = {
    "overlap": (
        {"tensor": "steps"},
        {"tensor": "tracked", "from_rows": 64},
        {"batches": "two"},
        {"batches": "nano", "first_share": 0.3},
        {"batches": "nano-serial"},
    ),
    "router": ("round-robin", "random", "least-outstanding", "shortest-queue", "power-of-two", "prefix-aware"),
    "batching": (
        {"max_sequences": 2},
        {"token_budget": 64},
        {"policy": "sarathi", "token_budget": 512},
        {"policy": "static"},
        {"policy": "orca"},
        {"instances": 2},
    ),
    "kv_cache": (
        {"memory_share": 0.5},
        {"blocks": 100},
        {"blocks": 300, "preemption": "swap"},
        {"prefix_caching": "radix"},
    ),
    "precision": ({"weights": "fp8"}, {"weights": "int4"}, {"kv": "fp8"}),
    "context": (512, 4096),
}
_ASKED: Mapping[str, tuple[Any, ...]] = {
    "sessions": ({"turns": {"uniform": [1, 4]}, "think": {"fixed": 1}},),
    "shared_prefix": ({"tokens": {"fixed": 64}, "groups": 3, "zipf": 1.0}, {"tokens": {"fixed": 300}}),
    "priorities": ([0.5, 0.5], [0.1, 0.2, 0.7]),
}


def _length(random: Random, most: int = 2000) -> dict[str, Any]:
    return random.choice(
        (
            {"fixed": random.randrange(1, most)},
            {"uniform": [1, most]},
            {"lognormal": [most / 4, 0.7], "high": most},
            {"exponential": most / 8, "low": 1, "high": most},
        )
    )


def scenario_of(given: Input) -> dict[str, Any]:
    """The document of an input."""
    document: dict[str, Any] = json.loads(given.files["s.yaml"])
    return document


def _checked(document: dict[str, Any], faults: Any, random: Random, unfolded: float = 0.0) -> Input:
    """The scenario with the checks of its kind; some are run again, some with more memory, a share unfolded."""
    text, again, larger = json.dumps(document).encode(), random.random() < 0.15, random.random() < 0.3
    whole = random.random() < unfolded
    words = ["run", "s.yaml", "--json", "-"]

    def check(answer: Answer) -> str | None:
        if answer.code == 2:
            return "said something on standard output" if answer.out else None
        told = faults(json.loads(answer.out), document)
        if told is None and again and answered(words) != answer:
            told = "is not the same the second time"
        if told is None and larger and answer.code == 0:
            more = answered([*words, "cluster.node.accelerator.memory.capacity=1000 GB"])
            told = f"does not fit into more memory: {more.err[-300:]}" if more.code else None
        return told or (apart(answer, answered([*words, "--no-fold"])) if whole and answer.code == 0 else None)

    return Input(words, {"s.yaml": text}, check)


def apart(folded: Answer, unfolded: Answer) -> str | None:
    """Where a step whose equal ranks were merged differs from that of all of them."""
    if unfolded.code:
        return f"ends unfolded with {unfolded.code}: {unfolded.err[-300:]}"
    one, other = (json.loads(answer.out)["metrics"] for answer in (folded, unfolded))
    if unequal := {
        name: (value, other[name]) for name, value in one.items() if value and abs(other[name] / value - 1) > ROUNDING
    }:
        return f"differs unfolded: {unequal}"
    return None


def training_faults(told: Mapping[str, Any], document: Mapping[str, Any]) -> str | None:
    """What is wrong with a step."""
    figures = told["metrics"]
    if (wrong := shares(figures, ("mfu", "hfu", "bubble_fraction"))) or (wrong := _numbers(figures)):
        return wrong
    step = figures["step_time_s"]
    if not step > 0 or figures["mfu"] > figures["hfu"] * (1 + TINY):
        return f"step {step} s, MFU {figures['mfu']}, HFU {figures['hfu']}"
    if below := {name: one for name, one in told["breakdown"].items() if min(one.values()) < -TINY * sum(one.values())}:
        return f"parts of a step below nothing: {below}"
    sums = [sum(one.values()) for one in told["breakdown"].values()]
    if any(abs(one / sums[0] - 1) > TINY for one in sums) or (
        "steps" not in document["training"] and abs(sums[0] / step - 1) > TINY
    ):
        return f"parts of a step of {step} s sum to {sums}"
    return None


def serving_faults(told: Mapping[str, Any], document: Mapping[str, Any]) -> str | None:
    """What is wrong with a service."""
    figures = told["metrics"]
    if "completed" not in figures:  # the model does not fit
        return None
    portions = [name for name in figures if name.endswith(("attainment", "_usage", "hit_rate", "utilisation"))]
    if (wrong := shares(figures, portions)) or (wrong := _numbers(figures)):
        return wrong
    requests = document["requests"]
    ended = figures["completed"] + figures["failed"] + figures.get("unfinished", 0)
    in_turn = "closed_loop" in requests["arrivals"] or "sessions" in requests
    waits = in_turn and figures.get("unfinished", 0) > 0  # and sends nothing more
    if ended > requests["count"] or (ended < requests["count"] and not waits):
        return f"{ended} of {requests['count']} requests ended"
    for name in ("ttft", "tpot", "itl", "e2el"):
        rising = [figures.get(f"{kind}_{name}_ms") for kind in ("median", "p90", "p95", "p99")]
        known = [value for value in rising if value is not None]
        if known != sorted(known):
            return f"percentiles of {name} fall: {known}"
    return None


def shares(figures: Mapping[str, Any], names: Any) -> str | None:
    """Figures of these names that are no shares."""
    wrong = {name: figures[name] for name in names if figures.get(name) is not None and not 0 <= figures[name] <= 1}
    return f"shares beyond 0 and 1: {wrong}" if wrong else None


def _numbers(figures: Mapping[str, Any]) -> str | None:
    wrong = {
        name: value for name, value in figures.items() if value is not None and not (isfinite(value) and value >= 0)
    }
    return f"figures that cannot be: {wrong}" if wrong else None
