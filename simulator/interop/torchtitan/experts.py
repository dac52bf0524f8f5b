"""Mixtures of experts in torchtitan: flavors, the mesh of experts, and the dispatcher of rows.

Facts: torchtitan/models/{deepseek_v3,llama4,qwen3,gpt_oss}/__init__.py; `expert_parallel_degree`,
`expert_tensor_parallel_degree` and `expert_parallel_comm_backend` in torchtitan/config/job_config.py (2025).
"""

FLAVORS = {
    "deepseek_v3": {"16B": "deepseek-v2-lite", "236B": "deepseek-v2", "671B": "deepseek-v3"},
    "llama4": {
        "17bx16e": "llama-4-scout",
        "17bx128e": "llama-4-maverick",
        "17bx16e_irope": "llama-4-scout",
        "17bx128e_irope": "llama-4-maverick",
    },
    "qwen3": {"30B-A3B": "qwen3-30b-a3b", "235B-A22B": "qwen3-235b-a22b"},
    "gpt_oss": {"20b": "gpt-oss-20b", "120b": "gpt-oss-120b"},
}
"""Shipped model of each flavor of each family."""
MIXTURES = frozenset(model for flavors in FLAVORS.values() for model in flavors.values())
BACKENDS = {"standard": "alltoall", "deepep": "deepep"}
"""Exchange library by `expert_parallel_comm_backend`; `standard` is PyTorch's all-to-all."""
CHUNK = 8192
"""Tokens that most layers of Llama 4 look back to."""


def mesh(ep: int, etp: int, tp: int) -> int:
    """The tensor-parallel size of experts: the option counts only where experts are spread; else they are cut as the
    rest is."""
    return etp if ep > 1 else tp


def unfit(ep: int, etp: int, tp: int, cp: int, shards: int) -> tuple[str, str] | None:
    """What torchtitan refuses of the sizes, with what to write: experts take all ranks of a sequence, and shards."""
    if ep == 1:
        return None
    if etp not in (1, tp):
        return f"expert_tensor_parallel_degree {etp} is neither 1 nor tensor_parallel_degree {tp}", f"write 1 or {tp}"
    inner = cp if etp == tp else cp * tp
    named = "context_parallel_degree" + (" x tensor_parallel_degree" if etp != tp else "")
    if ep % inner or (shards * inner) % ep:
        message = f"expert_parallel_degree {ep} is no multiple of {named} = {inner} that divides {shards * inner} ranks"
        return message, f"these are {named} x data_parallel_shard_degree {shards}; --nodes gives more"
    return None


def unlike(flavor: str, model: str, sequence: int) -> str | None:
    """What a flavor does otherwise than the shipped model; None where it does the same."""
    if model.startswith("llama-4") and not flavor.endswith("_irope") and sequence > CHUNK:
        seen = f"those here look back {CHUNK:,} tokens, but for every fourth"
        return f"model.flavor {flavor}: its layers see the whole context; {seen}"
    return None
