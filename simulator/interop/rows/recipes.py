"""Settings of published benchmark recipes that their tables of results leave out.

Rows of Megatron-Bridge name the release of their container, the model and the device; dispatchers of rows to experts,
what is captured in CUDA graphs, what is computed again and what overlaps stand in the recipe of that release
(NVIDIA-NeMo/Megatron-Bridge scripts/performance/configs: `moe_flex_dispatcher_backend`, `cuda_graph_scope`,
`recompute_modules`, `moe_a2a_overlap`). Each entry names the commit or pull request that it was read in; where two
releases differ, the release is the one that the pull request went into, or the one whose published layout (pipeline,
experts, microbatch) is that of the commit. No entry rests on published step times. Everything taken from here is
listed as assumed. Recipes that recompute `mlp` mean dense layers, of which these models have few: left out.
"""

import re
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row

LAYER_GRAPHS = ("attention", "router")
"""Transformer Engine's graphs of `attn`, `moe_router` and `moe_preprocess`."""
CURRENT = "fp8-current"
"""What plain fp8 means: the configurations for H100 are named FP8_CS (27dfb3d to 01b2977)."""
WHOLE_GRAPHS = ("all",)
"""One graph of the whole iteration."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Settings of one model on some devices, from a release on."""

    source: str
    """Commit or pull request of Megatron-Bridge that says so."""
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
    attention: bool = False
    """Attention multiplies in 8 bits (`fp8_dot_product_attention`)."""
    until: float = inf
    """Last release."""


RACKS, BLACKWELL, B200 = r"gb[23]00", r"g?b[23]00", r"\bb200"
DROP, MX, LATENT = r"token ?drop", r"mx", ("latent",)
DEEPSEEK, QWEN, QWEN_30, QWEN_235, GPT = r"deepseek", r"qwen3.?(30|235)", r"qwen3.?30", r"qwen3.?235", r"gpt.?oss"
RECIPES = (
    Recipe("27dfb3d", DEEPSEEK, BLACKWELL, words=DROP, dispatcher="alltoall", modules=LATENT),
    Recipe("27dfb3d", QWEN_235, rf"h100|{B200}", words=DROP, dispatcher="alltoall"),
    Recipe("27dfb3d, 4054233", QWEN, BLACKWELL, words=DROP, dispatcher="alltoall", graphs=WHOLE_GRAPHS),
    Recipe("#4226, #4330", DEEPSEEK, "gb300", 2606, MX, graphs=WHOLE_GRAPHS, overlap=True, attention=True),
    Recipe("#4226", DEEPSEEK, RACKS, 2606, MX, graphs=WHOLE_GRAPHS, modules=LATENT, overlap=True),
    Recipe("#2378", DEEPSEEK, RACKS, 2602, graphs=LAYER_GRAPHS, modules=LATENT),
    Recipe("d19cb73", DEEPSEEK, RACKS, 2511, graphs=("router",), modules=LATENT),
    Recipe(
        "#4458, 0426418",
        DEEPSEEK,
        "b300",
        2606.01,
        MX,
        graphs=WHOLE_GRAPHS,
        modules=LATENT,
        overlap=True,
        attention=True,
    ),
    Recipe("#4458, 0426418", DEEPSEEK, "b300", 2604.01, graphs=LAYER_GRAPHS, modules=LATENT),
    Recipe("0426418", DEEPSEEK, B200, 2604.01, MX, graphs=LAYER_GRAPHS, modules=LATENT, overlap=True),
    Recipe("d19cb73, f0e2c37", DEEPSEEK, r"\bb[23]00", modules=LATENT),
    Recipe("f0e2c37", DEEPSEEK, "h100", 2602, modules=LATENT),
    Recipe("27dfb3d, d19cb73", DEEPSEEK, "h100", modules=LATENT, overlap=True),
    Recipe("#4249, #4606", QWEN, RACKS, 2606, MX, graphs=WHOLE_GRAPHS, overlap=True, attention=True),
    Recipe("#4606", QWEN, r"\bb[23]00", 2606.01, MX, graphs=WHOLE_GRAPHS, overlap=True, attention=True),
    Recipe("#4249, #4587", QWEN_30, "b300", 2606, MX, graphs=WHOLE_GRAPHS, overlap=True),
    Recipe("#2499", QWEN_30, B200, 2602.01, graphs=LAYER_GRAPHS),
    Recipe("f29a269, 01b2977", QWEN_30, "h100", 2604),
    Recipe("f29a269", QWEN_30, BLACKWELL, 2602, graphs=("router",)),
    Recipe("767255d", QWEN_30, BLACKWELL, 2511, dispatcher="alltoall", graphs=LAYER_GRAPHS),
    Recipe("767255d, #2119", QWEN_30, "h100", 2511, dispatcher="alltoall", overlap=True, until=2602),
    Recipe("767255d, f29a269", QWEN_235, RACKS, 2511, graphs=LAYER_GRAPHS),
    Recipe("#3490", QWEN_235, "b300", 2604.01),
    Recipe("01b2977", QWEN_235, "b300", 2604, dispatcher="alltoall"),
    Recipe("f29a269", QWEN_235, "b300", 2602, dispatcher="alltoall", overlap=True),
    Recipe("f29a269, 01b2977", QWEN_235, B200, 2602, dispatcher="alltoall"),
    Recipe("767255d", QWEN_235, B200, 2511, dispatcher="alltoall", overlap=True),
    Recipe("767255d, f29a269", QWEN_235, "h100", 2511, dispatcher="alltoall", overlap=True),
    Recipe("07eea52", GPT, "b300", 2606, MX, graphs=LAYER_GRAPHS, overlap=True),
    Recipe("#2915", GPT, "b300", 2602.01, graphs=LAYER_GRAPHS),
    Recipe("1e7adfa", GPT, "b300", 2602, dispatcher="alltoall", graphs=LAYER_GRAPHS),
    Recipe("#3614", GPT, B200, 2604.01, dispatcher="alltoall", modules=("norm", "activation")),
    Recipe("#2915", GPT, B200, 2602.01, modules=("norm", "activation")),
    Recipe("6b296ac, 1e7adfa", GPT, rf"h100|{B200}", 2511, dispatcher="alltoall", modules=("norm", "activation")),
)
"""Recipes of Megatron-Bridge, first match. None for Qwen3-30B on H100 in 26.02.01: its published layout is that before
#2477, which is older than the release. Of Qwen3-30B on B300 in 26.06 only the graph is stated (#4587); that exchanges
overlap is inferred: every recipe with one graph a step that was read has both (#4226, #4249, #4606, #5356)."""

_BRIDGE = re.compile(r"megatron.?bridge", re.IGNORECASE)
_RELEASE = re.compile(r"\b(2\d)\.(\d\d)(?:\.(\d+))? NeMo container")
_CARDS = re.compile(r"(?<![a-z])pretrain_performance(?![a-z])")
CARDS = 2606.01
"""Release of the recipes of performance that model verification cards run: the cards are verified in containers of
26.06 (gpt-oss-120b) to 26.08 (deepseek-v3; NVIDIA-NeMo/Megatron-Bridge examples/model_verification_cards)."""


def recipe(row: "Row") -> Recipe | None:
    """The recipe of a row of Megatron-Bridge; None for others, and where none is known."""
    release = _release(row.table or "")
    if release is None or not _BRIDGE.search(row.framework or "") or (row.experts or 0) <= 1:
        return None
    said = f"{row.precision} {row.flags or ''}".lower()
    return next((one for one in RECIPES if one.since <= release <= one.until and _fits(one, row, said)), None)


def _release(table: str) -> float | None:
    """The release that a table of results names, year and month."""
    found = _RELEASE.search(table)
    if found is None:
        return CARDS if _CARDS.search(table) else None
    return int(found[1]) * 100 + int(found[2]) + int(found[3] or 0) / 100


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
    if one.attention:
        found["quantized_attention"] = True
        said.append("attention in 8 bits")
    if row.precision == "fp8":
        found["precision"] = CURRENT
        said.append("scales of tensors as they are")
    assumed.append(f"{', '.join(said)}, as in the recipe of the release (Megatron-Bridge {one.source})")
    return found
