"""Ulysses: an all-to-all gives every rank the whole sequence for some of the heads, another one brings results back.

Four all-to-alls a layer forward and four backward, of queries, keys, values and results (arXiv:2309.14509 section 3),
with nothing beside them: DeepSpeed's `sp_stream` and Transformer Engine's pipelining of the four are left out. Key
heads are repeated where there are fewer than ranks. Where ranks do not divide the heads the rank with most of them is
simulated, as DeepSpeed allows; Transformer Engine refuses this, and fewer key heads than ranks too.
"""

from collections.abc import Iterator
from dataclasses import replace

from simulator.model.ops import AttentionCore
from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.step import Collective, Step

INPUTS: tuple[str, ...] = ("queries", "keys", "values")
RESULTS: tuple[str, ...] = ("results",)


def ulysses(sharing: Sharing) -> Iterator[Step]:
    """Tokens to heads, attention over whole sequences, heads to tokens; backward the same for gradients."""
    there, back = (INPUTS, RESULTS) if not sharing.core.backward else (RESULTS, INPUTS)
    yield from (to_all(sharing, name) for name in there)
    yield from sharing.whole(own(sharing))
    yield from (to_all(sharing, name) for name in back)


def own(sharing: Sharing) -> AttentionCore:
    """The attention of the rank with most heads."""
    core, n = sharing.core, sharing.ranks
    return replace(core, heads=-(-core.heads // n), kv_heads=-(-core.kv_heads // n))


def to_all(sharing: Sharing, name: str) -> Collective:
    """The all-to-all of a tensor or its gradient."""
    more = repeated(sharing)
    size = {
        "queries": sharing.query_bytes,
        "keys": sharing.key_bytes * more,
        "values": sharing.value_bytes * more,
        "results": sharing.result_bytes,
    }[name]
    what = "gradients of " if sharing.core.backward else ""
    return sharing.send(f"all-to-all of {what}{name}", "all_to_all", size)


def repeated(sharing: Sharing) -> float:
    """How often key heads are sent: more than once where there are fewer than ranks."""
    return max(sharing.ranks / sharing.core.kv_heads, 1.0)


def in_flight(sharing: Sharing) -> float:
    """Queries, keys, values and results by heads beside those by tokens; backward with their gradients."""
    both = sharing.query_bytes + sharing.result_bytes + sharing.block_bytes * repeated(sharing)
    return both * (2 if sharing.core.backward else 1)


SCHEMES.add("ulysses")(Scheme(ulysses, in_flight, fused=False, by_heads=True, documents=True))
