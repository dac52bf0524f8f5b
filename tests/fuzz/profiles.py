"""Profiles of kernels, of collective libraries and of software with numbers changed, under a step, a service or a
collective that reads them."""

import json
from functools import cache
from random import Random
from typing import Any

import yaml

from tests.fuzz import commands, fleets, semantics, tiers
from tests.fuzz.harness import Answer, Input
from tests.fuzz.mutations import ROOT, change

CLUSTERS = {
    "dgx-h100": ("h100-sxm", "nccl-h100"),
    "dgx-a100": ("a100-sxm", "nccl-a100"),
    "dgx-b200": ("b200-sxm", "nccl-b200"),
    "dgx-1-v100": ("v100", "nccl-v100"),
    "mi300x-cluster": ("cdna3", "rccl"),
    "gaudi2-cluster": ("gaudi2", "generic"),
}
"""Clusters with profiles of kernels and of collectives for them."""
TRAINERS = ("megatron-core", "fsdp2", "deepspeed", "fsdp")
SERVERS = ("vllm", "sglang", "tensorrt-llm", "tensorrt-llm-pytorch")


def profiles(random: Random) -> Input:
    """A profile with one to three of its values changed, and something that reads it."""
    cluster = random.choice(tuple(CLUSTERS))
    kernels, collectives = CLUSTERS[cluster]
    draw = random.random()
    if draw < 0.3:
        machine = {"extends": f"clusters/{cluster}", "nodes": random.choice((1, 2)), "collectives": "x"}
        size = random.choice(("--size", "--sizes"))
        words = ["collective", "c.yaml", "--op", random.choice(("all_reduce", "all_gather", "all_to_all", "broadcast"))]
        words += [size, "1 MB" if size == "--size" else "8:1G:8", "--json", "-"]
        files = {"c.yaml": json.dumps(machine).encode(), **_changed("collectives", collectives, random)}
        return Input(words, files, commands.sound())
    train = random.random() < 0.5
    document = tiers.plain(random) if train else fleets.plain(random)
    document["cluster"] = {"extends": f"clusters/{cluster}", "nodes": random.choice((1, 1, 2)) if train else 1}
    if draw < 0.6:
        document["cluster"]["node"] = {"accelerator": {"kernels": "x"}}
        files = _changed("kernels", kernels, random)
    elif draw < 0.75:
        document["cluster"]["collectives"] = "x"
        files = _changed("collectives", collectives, random)
    else:
        document["stack"] = "x"
        files = _changed("stacks", random.choice(TRAINERS if train else SERVERS), random)

    def check(answer: Answer) -> str | None:
        if answer.code == 2:
            return "said something on standard output" if answer.out else None
        told = json.loads(answer.out)
        if "step_time_s" not in told.get("metrics", {}) and train:
            return None
        return (semantics.training_faults if train else semantics.serving_faults)(told, document)

    return Input(["run", "s.yaml", "--json", "-"], {"s.yaml": json.dumps(document).encode(), **files}, check)


@cache
def _read(folder: str, name: str) -> str:
    return json.dumps(yaml.safe_load((ROOT / f"hardware_profiles/{folder}/{name}.yaml").read_text(encoding="utf-8")))


def _changed(folder: str, name: str, random: Random) -> dict[str, bytes]:
    """The file of a profile under another name, changed."""
    profile: dict[str, Any] = json.loads(_read(folder, name))
    for _ in range(random.choice((1, 1, 2, 3))):
        change(profile, random)
    return {f"hardware_profiles/{folder}/x.yaml": json.dumps(profile).encode()}
