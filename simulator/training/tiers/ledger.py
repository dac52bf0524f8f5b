"""What the devices of a node keep together in its host's memory and on its drives."""

from collections import defaultdict

import numpy as np

from simulator.training import memory
from simulator.training.job import Job
from simulator.training.tiers.plan import most_away, moves_of

Ledger = dict[str, float]
"""Bytes by what is kept and the stage that keeps it."""


def kept_elsewhere(job: Job, tier: str) -> list[Ledger]:
    """Bytes by kind that one device of each stage keeps in a tier; shape (pp,)."""
    if job.offload is None:
        activations = memory.offloaded(job) if tier == "host" and job.offload_layers else [0.0] * job.pp
        return [{"activations": size} if size else {} for size in activations]
    tiers, found = job.offload.tiers, []
    for stage in range(job.pp):
        kept = Ledger()
        if tiers.get("activations") == tier:
            kept["activations"] = most_away(moves_of(job, stage))
        for kind, size in memory.by_tier(job, stage)[1].items():
            if tiers["parameters" if kind == "parameters" else "optimizer"] == tier:
                kept[kind] = size
        found.append({kind: size for kind, size in kept.items() if size})
    return found


def fullest_node(job: Job, tier: str, devices: int) -> Ledger:
    """What the devices of the node that keeps most in a tier keep there; `devices` share a node."""
    kept = kept_elsewhere(job, tier)
    if not any(kept):
        return {}
    stages = np.empty(job.mesh.world, np.int64)
    stages[job.mesh.chains()] = np.arange(job.pp)
    nodes = []
    for first in range(0, job.mesh.world, devices):
        counts = np.bincount(stages[first : first + devices], minlength=job.pp)
        node: Ledger = defaultdict(float)
        for stage, number in enumerate(counts.tolist()):
            for kind, size in kept[stage].items():
                if number:
                    node[f"{kind}, stage {stage}"] += number * size
        nodes.append(dict(node))
    return max(nodes, key=lambda node: sum(node.values()))
