"""Settings of published benchmark recipes that their tables of results leave out.

Rows of Megatron-Bridge name the release of their container, the model and the device; who sends rows to experts, what
is captured in CUDA graphs, what is computed again and what overlaps stand in the recipe of that release
(NVIDIA-NeMo/Megatron-Bridge scripts/performance/configs: `moe_flex_dispatcher_backend`, `cuda_graph_scope`,
`recompute_modules`, `moe_a2a_overlap`). Everything taken from here is listed as assumed. Recipes that recompute `mlp`
mean dense layers, of which these models have few: left out.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row

LAYER_GRAPHS = ("attention", "router")
"""Transformer Engine's graphs of `attn`, `moe_router` and `moe_preprocess`."""
WHOLE_GRAPHS = ("all",)
"""One graph of the whole iteration."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of one model on some devices, from a release on."""

    model: str
    """Words of the row's model; empty for all."""
    device: str
    """Words of its device."""
    since: float = 0.0
    """First release, year and month."""
    words: str = ""
    """Words of its precision and flags that it is for; empty for all."""
    dispatcher: str = "deepep"
    """DeepEP, or HybridEP, which merges copies likewise."""
    graphs: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    overlap: bool = False


RACKS, BLACKWELL = r"gb[23]00", r"g?b[23]00"
RECIPES = (
    Recipe("deepseek", BLACKWELL, words="token ?drop", dispatcher="alltoall", modules=("latent",)),
    Recipe("", BLACKWELL, words="token ?drop", dispatcher="alltoall", graphs=WHOLE_GRAPHS),
    Recipe("deepseek", RACKS, 2606, r"mx", graphs=WHOLE_GRAPHS, modules=("latent",), overlap=True),
    Recipe("deepseek", RACKS, 2602, graphs=LAYER_GRAPHS, modules=("latent",)),
    Recipe("deepseek", "b300", 2604.01, graphs=LAYER_GRAPHS, modules=("latent",)),
    Recipe("deepseek", r"\bb200", 2604.01, graphs=LAYER_GRAPHS, modules=("latent",), overlap=True),
    Recipe("deepseek", BLACKWELL, modules=("latent",)),
    Recipe("deepseek", "h100", modules=("latent",), overlap=True),
    Recipe("qwen3.?(30|235)", RACKS, 2606, r"mx", graphs=WHOLE_GRAPHS),
    Recipe("qwen3.?30", "b300", 2606, r"mx", graphs=WHOLE_GRAPHS),
    Recipe("qwen3.?30", r"\bb200", 2602.01, graphs=LAYER_GRAPHS),
    Recipe("qwen3.?30", BLACKWELL, 2602, graphs=("router",)),
    Recipe("qwen3.?235", RACKS, 2511, graphs=LAYER_GRAPHS),
    Recipe("qwen3.?235", r"\bb[23]00", dispatcher="alltoall"),
    Recipe("qwen3.?235", "h100", dispatcher="alltoall", overlap=True),
    Recipe("gpt.?oss", "b300", 2602.01, r"mx", graphs=LAYER_GRAPHS, overlap=True),
    Recipe("gpt.?oss", "b300", 2602.01, graphs=LAYER_GRAPHS),
    Recipe("gpt.?oss", "", dispatcher="alltoall", modules=("norm", "activation")),
)
"""Recipes of Megatron-Bridge, first match."""

_BRIDGE = re.compile(r"megatron.?bridge", re.IGNORECASE)
_RELEASE = re.compile(r"\b(2\d)\.(\d\d)(?:\.(\d+))? NeMo container")


def recipe(row: "Row") -> Recipe | None:
    """The recipe of a row of Megatron-Bridge; None for others, and where none is known."""
    found = _RELEASE.search(row.table or "")
    if not found or not _BRIDGE.search(row.framework or "") or (row.experts or 0) <= 1:
        return None
    release = int(found[1]) * 100 + int(found[2]) + int(found[3] or 0) / 100
    said = f"{row.precision} {row.flags or ''}".lower()
    return next((one for one in RECIPES if one.since <= release and _fits(one, row, said)), None)


def _fits(one: Recipe, row: "Row", said: str) -> bool:
    texts = ((one.model, row.model), (one.device, row.device), (one.words, said))
    return all(re.search(words, text.lower()) for words, text in texts)


def settings(row: "Row", assumed: list[str]) -> dict[str, Any]:
    """Fields of the training of a row that its recipe sets; empty where there is none."""
    one = recipe(row)
    if one is None:
        return {}
    said = [f"rows sent by {one.dispatcher}"]
    found: dict[str, Any] = {"dispatcher": one.dispatcher}
    if one.graphs:
        found["cuda_graphs"] = one.graphs
        said.append(f"graphs of {' and '.join(one.graphs)}")
    if one.modules and row.recompute is None:
        found |= {"recompute": "selective", "recompute_modules": one.modules}
        said.append(f"{' and '.join(one.modules)} computed again")
    if one.overlap:
        found["overlap_experts"] = True
        said.append("exchanges with experts beside other microbatches")
    assumed.append(f"{', '.join(said)}, as in the recipes of the release")
    return found
