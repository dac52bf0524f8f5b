"""Mixtures of experts in published training rows: their shape, layout and router."""

import re
from typing import TYPE_CHECKING, Any, Literal

from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving_names import model as served_model
from simulator.interop.rows.stated.stacks import by_user
from simulator.specs.training import RouterLoad

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row
    from simulator.specs.model import Model

DROPPED = re.compile(r"token ?drop")
"""Words of benchmarks whose experts take as many rows each, the rest being dropped (capacity factor 1 where they say
none, padded)."""
CAPACITY = re.compile(r"capacity[ _]factor ?=? ?(\d+(?:\.\d+)?)")

MASKED = re.compile(r"maxtext")
"""Frameworks whose capacity of experts means products with masks, sequence by sequence (`dense_matmul` of MaxText)."""


def shape(row: "Row") -> dict[str, Any]:
    """Fields of the model; empty for a dense one."""
    if (row.experts or 0) <= 1:
        return {}
    if row.topk is None:
        raise Refused("a mixture of experts without key `topk`")
    found: dict[str, Any] = {"experts": row.experts, "top_k": row.topk, "shared_experts": row.shared_experts or 0}
    if row.moe_ffn:
        found["expert_ffn"] = row.moe_ffn
    if _in_turn(row) and row.experts % row.topk == 0:  # type: ignore[operator]  # above 1
        found |= {"expert_groups": row.experts // row.topk, "expert_group_limit": 1}  # type: ignore[operator]
    if known := _shipped(row):
        found |= {name: getattr(known, name) for name in ("expert_biases", "clamped_gate", "head_norms")}
    if row.dense_layers:
        dense, sparse = {"mlp": "dense", "repeat": row.dense_layers}, row.layers - row.dense_layers
        found["pattern"] = [dense, {"mlp": "moe", "repeat": sparse}]
    elif (row.moe_every or 1) > 1:
        assert row.moe_every is not None
        found["pattern"] = [{"mlp": "dense", "repeat": row.moe_every - 1}, {"mlp": "moe"}]
    return found


def _shipped(row: "Row") -> "Model | None":
    """The shipped model of the row's name and shape, which knows more of its experts than a row says."""
    try:
        known = served_model(row.model)
    except Refused:
        return None
    return known if (known.hidden, known.experts) == (row.hidden, row.experts) else None


LATENT = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")


def latent(row: "Row", assumed: list[str]) -> dict[str, Any]:
    """Sizes of latent attention as the shipped model of the row's name and width has them; Refused without one."""
    try:
        known = served_model(row.model)
    except Refused:
        known = None
    if known is None or known.kv_lora_rank is None or known.hidden != row.hidden:
        raise Refused(f"attention `{row.attention}` without its sizes: write `MLA(q_lora 1536, kv_lora 512, ...)`")
    assumed.append("sizes of latent attention as the model of this name has")
    return {name: getattr(known, name) for name in LATENT}


def _in_turn(row: "Row") -> bool:
    """Whether a benchmark deals experts out in turn, so that a row visits `topk` neighbours: NeMo AutoModel's balanced
    gate (nemo_automodel/components/moe, `FakeBalancedGate`)."""
    said = f"{row.framework or ''} ; {row.flags or ''}".lower()
    return "automodel" in said and bool(re.search(r"balanced gate", said))


NEMO = re.compile(r"(?<![a-z])nemo(?![a-z])")
BRIDGE = re.compile(r"megatron.?bridge")


def layout(row: "Row", assumed: list[str]) -> dict[str, Any]:
    """Sizes of the axes of the experts.

    Experts are cut as Megatron does by default, over `tp`, in benchmarks of NeMo (v25.02 of
    NVIDIA/dgxc-benchmarking, grok1: 32 devices with tp 4 and ep 8 are one replica of the experts). Recipes of
    Megatron-Bridge (scripts/performance) and runs of Megatron-Core itself (Megatron-MoE-ModelZoo) say otherwise: 1.
    """
    if (row.experts or 0) <= 1:
        return {}
    said = (row.framework or "").lower()
    usual = (row.tp or 1) if NEMO.search(said) and not BRIDGE.search(said) else 1
    if row.etp is None and (row.tp or 1) > 1:
        assumed.append(f"etp {usual}")
    return {"ep": row.ep or 1, "etp": row.etp or usual}


LIBRARIES = (
    (r"deep ?ep|hybrid ?ep|hai.?llm", "deepep"),
    (r"nccl all ?to ?all|all ?to ?all dispatcher|alltoall", "alltoall"),
)
"""What sends rows to experts, by the words of a row; DeepEP is that of HAI-LLM (arXiv:2412.19437, section 3.2.2), and
HybridEP merges copies likewise."""


def dispatcher(row: "Row", assumed: list[str]) -> str | None:
    """What sends rows to experts; None for the stack's.

    Recipes of Megatron-Bridge take libraries that merge copies, DeepEP or HybridEP by the device
    (NVIDIA-NeMo/Megatron-Bridge scripts/performance, `moe_flex_dispatcher_backend`); runs of one's own the stack's.
    """
    said = f"{row.flags or ''} ; {row.framework or ''}".lower()
    if (row.experts or 0) <= 1:
        return None
    for words, library in LIBRARIES:
        if re.search(words, said):
            return library
    if BRIDGE.search(said) and not by_user(row):
        assumed.append("rows are sent by deepep, as in the recipes of the framework")
        return "deepep"
    return None


_EXCHANGE = r"(a2a|all[- ]to[- ]alls?)"
OVERLAPPED = re.compile(
    rf"{_EXCHANGE} ((is|are) )?overlap|overlap\w*[- ](of )?(moe|expert|{_EXCHANGE})|batch level overlap"
)
"""Words of benchmarks that send rows beside the passes of another microbatch."""


def overlaps(row: "Row") -> bool:
    """Whether rows travel beside the passes of another microbatch, by the words of a row."""
    if re.search(r"dual ?pipe", (row.schedule or "").lower()):
        return (row.ep or 1) > 1  # what the schedule is for (arXiv:2412.19437, section 3.2.1)
    said = f"{row.flags or ''} ; {row.schedule or ''}".lower()
    return bool(
        (row.experts or 0) > 1 and OVERLAPPED.search(said) and not re.search(r"(no|without|w/o) \S*overlap", said)
    )


def routing(row: "Row", assumed: list[str]) -> RouterLoad:
    """How its router spreads tokens: benchmarks force an even load unless they say otherwise."""
    said = (row.flags or "").lower()
    if (row.experts or 0) <= 1:
        return RouterLoad()
    if re.search(r"real|natural rout", said):
        assumed.append("real routing: rows choose independently, all experts alike")
        return RouterLoad(load="random")
    if DROPPED.search(said):
        factor = CAPACITY.search(said)
        masks: Literal["sequence"] | None = "sequence" if MASKED.search((row.framework or "").lower()) else None
        return RouterLoad(capacity=float(factor[1]) if factor else 1.0, padded=True, masks=masks)
    if "balance" not in said:
        assumed.append("every expert takes as many rows")
    return RouterLoad()
