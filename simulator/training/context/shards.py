"""What travels where ranks attend to documents of others (DistCA)."""

from simulator.axes import DP
from simulator.model.ops import AttentionCore
from simulator.training.job import Job
from simulator.training.step import Collective

SHARDS = "shards of documents"
"""Name of the collectives that carry attention to other ranks and back."""


def moved(job: Job, does: AttentionCore) -> tuple[list[Collective], list[Collective]]:
    """What travels to the ranks that attend for others, and home again, as of the rank with most: queries, keys and
    values there and results back; backward results and their gradients there too, and three gradients back. Empty where
    every rank attends to its own documents."""
    if job.packing is None or not job.packing.served:
        return [], []
    queries, keys = job.packing.moved
    asked = queries * does.heads * does.head_dim * job.element
    seen = keys * does.kv_heads * (does.head_dim + does.values) * job.element
    results = queries * does.attended * job.element
    there, back = (asked + seen + 2 * results, asked + seen) if does.backward else (asked + seen, results)
    return [Collective(SHARDS, "all_to_all", there, DP.name)], [Collective(SHARDS, "all_to_all", back, DP.name)]
