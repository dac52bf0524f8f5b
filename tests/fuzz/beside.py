"""Random adapters, batches of chunked pipelines, and links that fail, for services; loads of experts that move."""

from random import Random
from typing import Any

from tests.fuzz.drawing import some


def adapters(document: dict[str, Any], random: Random) -> None:
    """Many adapters of the model, or models that take turns."""
    count = random.choice((1, 4, 50))
    drawn: dict[str, Any] = {"count": count}
    if random.random() < 0.3:
        drawn |= {"kind": "whole", "slots": random.choice((1, 2, count))}
        drawn |= some(random, {"zipf": (0.0, 1.0), "latency": ("1 ms",)})
    else:
        rest = {
            "rank": (1, 16, [8, 64], 4096),
            "targets": (["mlp in", "mlp out"], ["attention in"]),
            "zipf": (0.0, 1.2),
            "base_share": (0.0, 0.5, 1.0),
            "slots": (1, 3, count),
            "kernels": ("one-by-one",),
            "latency": ("0 s", "5 ms"),
        }
        drawn |= some(random, rest)
    if random.random() < 0.3:
        drawn |= {"host_slots": random.choice((1, 2, 5)), "storage": random.choice(("100 MB/s", "6 GB/s"))}
    document["serving"]["adapters"] = drawn


def batches(document: dict[str, Any], random: Random) -> None:
    """Stages whose pieces of prompts follow each other, and batches with padding."""
    system = document["serving"]
    system["parallel"] = {"tp": random.choice((1, 2)), "pp": random.choice((1, 2, 4))}
    batching = system.get("batching", {}) | {"chunked_pipeline": random.random() < 0.8}
    if random.random() < 0.4:
        batching |= {"policy": random.choice(("static", "static", "orca")), "padded": True}
    system["batching"] = batching | some(random, {"token_budget": (64, 512), "max_sequences": (2, 16)})


def links(document: dict[str, Any], random: Random) -> None:
    """Links between pools that fail."""
    rules = document["serving"].setdefault("fleet", {})
    names = random.choice((["NIC 0"], ["NIC up 0", "NIC down 9"], ["NIC 0", "NIC 8"], ["NIC 99"]))
    failing = {"names": names, "mtbf": random.choice(("500 ms", "5 s"))}
    failing |= some(random, {"repair": ({"fixed": 0.1}, {"exponential": 2.0})})
    rules["failures"] = rules.get("failures", {}) | {"links": failing}
    rules["failures"] |= some(random, {"traffic": ("reroute", "wait")}, 0.7)


def moving(random: Random) -> dict[str, Any]:
    """Loads of experts that move from step to step."""
    rest = {"exponent": (0.0, 0.5, 2.0), "drift": (0.5, 1.0, 7.3, 64.0), "rebalanced": (1, 2, 10), "replicas": (0, 2)}
    return {"load": "drifting"} | some(random, rest, 0.6)


def models(document: dict[str, Any], random: Random) -> None:
    """Several models: a router by difficulty, a cascade, or both."""
    names = ("small", "large", "largest")[: random.choice((2, 2, 3))]
    pools: list[dict[str, Any]] = [{"name": name} | some(random, {"replicas": (1, 2)}) for name in names]
    pools[0] |= some(random, {"model": ("models/qwen2.5-0.5b",), "precision": ({"weights": "fp8"},)}, 0.9)
    system = document["serving"]
    system.pop("replicas", None)
    system["pools"] = pools
    classes = []
    for name, share in (("a", 0.25), ("b", 0.75)):
        kind: dict[str, Any] = {"name": name, "share": share}
        if random.random() < 0.4:
            kind["sent"] = random.choice(({names[-1]: 1}, {names[0]: 0.5, names[1]: 0.5}))
        tables = {
            "accepted": ({names[0]: 0.5}, {names[0]: 0.0, names[1]: 0.9}),
            "accuracy": (dict.fromkeys(names, 0.7), {names[0]: 0.2}),
        }
        classes.append(kind | some(random, tables, 0.5))
    rules: dict[str, Any] = {"classes": classes}
    rules |= some(random, {"cascade": (*[list(names)] * 8, list(names[::-1]))}, 0.9)
    rules |= some(random, {"judge": ("0 s", "20 ms", "10 s")})
    rules |= some(random, {"pipelines": ({"large": {"prompt": 2.5, "output": 0.5}},)}, 0.2)
    system["models"] = rules


def chunks(document: dict[str, Any], random: Random) -> None:
    """Retrieved chunks, in memory that is set aside, and tiers below it."""
    asked, cache = document["requests"], document["serving"].setdefault("kv_cache", {})
    each = random.choice((1, 3, 8))
    asked["chunks"] = {"tokens": random.choice((1, 100, 512)), "each": each, "of": random.choice((2 * each, 50))}
    asked["chunks"] |= some(random, {"zipf": (0.0, 1.0)})
    cache["chunks"] = {
        "capacity": random.choice(("1 B", "300 MB", "10 GB")),
        "recompute": random.choice((0.0, 0.3, 1.0)),
    }
    if random.random() < 0.6 and "tiers" not in cache:
        rest = {"write": ("back",), "eviction": ("lfu", "fifo"), "latency": ("1 ms",)}
        host = {"name": "host", "capacity": random.choice(("1 MB", "200 MB", "5 GB"))} | some(random, rest)
        drives = {"name": "ssd", "capacity": "50 GB", "bandwidth": random.choice(("100 MB/s", "6 GB/s"))}
        cache["tiers"] = random.choice(([host], [drives], [host, drives | some(random, rest)]))
    cache |= some(random, {"loads": ({"layered": True}, {"when": "faster"}, {"least": 600})}, 0.5)


def expert_loads(document: dict[str, Any], random: Random) -> None:
    """Experts that are loaded when rows ask for them."""
    document["model"] = f"models/{random.choice(('olmoe-1b-7b', 'qwen1.5-moe-a2.7b', 'llama-3.2-1b'))}"
    loads: dict[str, Any] = {"path": "host", "memory": random.choice(("1 MB", "300 MB", "3 GB", "60 GB"))}
    if random.random() < 0.4:
        loads |= {"path": "disk", "bandwidth": random.choice(("100 MB/s", "6 GB/s"))}
    levels = [{"bits": 2, "share": 0.5}, {"bits": 4.5, "share": 0.5}]
    rest = {
        "levels": (levels, [{"bits": 8, "share": 1}]),
        "nested": (False,),
        "prefetch": (0.5, 1),
        "latency": ("1 ms",),
    }
    document["serving"]["expert_loads"] = loads | some(random, rest, 0.5)
    if random.random() < 0.3:
        document["serving"]["experts"] = {
            "routing": random.choice(({"load": "zipf", "exponent": 1}, {"load": "random"}, {"load": "uneven"}))
        }
