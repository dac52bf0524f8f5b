"""Any machine, model and software that ships with any other, in a small step or service: what makes no sense is refused
in words."""

import json
from functools import cache
from random import Random
from typing import Any

from simulator.report.catalogue.profiles import ROOMS
from simulator.specs.hardware import Cluster
from simulator.specs.resolve import load_spec
from tests.fuzz import semantics
from tests.fuzz.drawing import some
from tests.fuzz.harness import Answer, Input, answered
from tests.fuzz.mutations import ROOT


@cache
def _names(folder: str) -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (ROOT / folder).glob("*.yaml")))


@cache
def _stacks(train: bool) -> list[str]:
    return ROOMS["training stacks" if train else "serving stacks"].names()


@cache
def _sized(cluster: str) -> tuple[int, bool]:
    """(devices of a node, whether there may be several nodes) of a cluster."""
    spec = load_spec(Cluster, f"clusters/{cluster}")
    return spec.node.devices, spec.network is not None


def shipped(random: Random) -> Input:
    """A step or a service."""
    cluster, train = random.choice(_names("hardware_profiles/clusters")), random.random() < 0.55
    each, several = _sized(cluster)
    nodes = random.choice((1, 1, 1, 2, 3)) if several else 1
    model: Any = f"models/{random.choice(_names('workloads/models'))}"
    layers = random.choice((1, 2, 4, 8, None, None, None))
    document: dict[str, Any] = {
        "version": 1,
        "name": "fuzz",
        "cluster": {"extends": f"clusters/{cluster}", "nodes": nodes},
        "model": {"extends": model, "layers": layers} if layers else model,
        "stack": random.choice(_stacks(train)),
        "seed": 0,
    }
    document |= _trained(random, nodes * each) if train else _served(random, nodes * each)
    words, larger = ["run", "s.yaml", "--json", "-"], random.random() < 0.3

    def check(answer: Answer) -> str | None:
        if answer.code == 2:
            return "said something on standard output" if answer.out else None
        told = json.loads(answer.out)
        if not told.get("metrics"):
            return None
        faults = semantics.training_faults if train else semantics.serving_faults
        if train and "step_time_s" not in told["metrics"]:
            return None
        if (wrong := faults(told, document)) or not larger or answer.code:
            return wrong
        return _larger(answered([*words, "cluster.node.accelerator.memory.capacity=100 TB"]))

    return Input(words, {"s.yaml": json.dumps(document).encode()}, check)


def _trained(random: Random, devices: int) -> dict[str, Any]:
    tp, pp = (
        random.choice([size for size in sizes if size <= devices]) for sizes in ((1, 1, 2, 4, 3, 8), (1, 1, 1, 2))
    )
    pp = pp if tp * pp <= devices else 1
    layout = {"tp": tp, "pp": pp, "zero": random.choice((0, 1, 3))}
    layout |= some(random, {"cp": (2,), "ep": (2, 4, 8)}, 0.1)
    batch = max(devices // (tp * pp), 1) * random.choice((1, 2, 3, 8))
    job = {"global_batch": batch, "sequence_length": random.choice((1, 7, 128, 1000, 2048, 2048))}
    rest = {
        "micro_batch": (1, 2, 3),
        "precision": ("bf16", "fp16", "fp32", "fp8", "mxfp8", "nvfp4"),
        "recompute": ("none", "full", "selective"),
        "attention": ("fused", "unfused"),
        "causal": (False,),
        "schedule": ("auto", "gpipe", "zb-h1"),
    }
    return {"training": job | {"parallel": layout} | some(random, rest, 0.2)}


def _served(random: Random, devices: int) -> dict[str, Any]:
    tp = random.choice([size for size in (1, 1, 2, 4, 8) if size <= devices])
    system: dict[str, Any] = {"parallel": {"tp": tp} | some(random, {"pp": (2,)}, 0.1)}
    rest = {
        "precision": ({"weights": "fp8"}, {"weights": "int4"}, {"weights": "nvfp4"}, {"kv": "fp8"}),
        "batching": ({"max_sequences": 1}, {"token_budget": 16}),
        "kv_cache": ({"memory_share": 0.999}, {"memory_share": 0.01}, {"block_size": 1}, {"blocks": 1}),
    }
    lengths = {"prompt": {"fixed": random.choice((1, 2, 500, 4096))}, "output": {"fixed": random.choice((1, 2, 30))}}
    asked = {"arrivals": random.choice(({"at_once": True}, {"constant": "3 /s"})), "lengths": lengths}
    return {"serving": system | some(random, rest, 0.3), "requests": asked | {"count": random.choice((1, 3, 8))}}


def _larger(answer: Answer) -> str | None:
    return f"does not fit into more memory: {answer.err[-300:]}" if answer.code else None
