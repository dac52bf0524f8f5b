"""What the words of published training rows stand for: formats, sharding, recomputation, schedules, frameworks.

Every vocabulary reads a text as a whole. A word that none of them knows is a refusal with the word in it: what a row
says is used, or said to be unknown, never dropped.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from simulator.interop.rows.accelerators import plain
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.stated import hybrids
from simulator.interop.rows.stated.sharding import OFFLOADED, Reduced, reduced_in
from simulator.specs.tiers.offload import ActivationOffload, Offload, OptimizerOffload, ParameterOffload
from simulator.specs.training import Lora, Precision, Recompute


class Numbers(NamedTuple):
    """Number formats of a row."""

    precision: Precision
    reduced: Reduced | None
    """Format in which gradients are reduced, where the words say it."""
    assumed: str = ""


_FORMATS = {
    "bf16": r"(amp |auto ?mixed )?(bf ?16|bfloat ?16)",
    "fp16": r"(amp |auto ?mixed )?(fp ?16|float ?16|half)",
    "fp8": r"fp8|mxfp8|float8|e4m3|nvfp8",
    "nvfp4": r"nvfp4",
    "int8": r"int8|aqt",
    "tf32": r"tf32|tensorfloat ?32",
    "fp32": r"fp32|float32",
}
_SIXTEEN = re.compile(
    r"(amp|mixed( precision)?|auto ?mixed( precision)?|half precision amp|16 ?(bits?)?( mixed)?( precision)?)"
    r"( o[12])?( 16 ?bits?)?( (not|un)( further)? ?stated)?"
)
"""Words of 16 bits that do not say which."""
_BEFORE = re.compile(
    r"^(mixed (precision )?(?=\S)|(weights|params?|parameters|master weights?) (in |are )?(fp32|float32) (with |and )?"
    r"|(te|transformer engine|torchao|deepseek( v3)?( style)?|fine ?grained|block ?wise) (?=.*fp8|.*float8)"
    r"|qlora |(nf4|4 ?bit)( (frozen|base))?( weights)? )+"
)
"""Words before a format that say how it is used."""
_UNMIXED = re.compile(r"^(\w+) (weights|parameters|params)( and)? (no|without) (mixed( precision)?|amp|autocast)$")
"""Words of parameters that are computed with as they are kept."""
_QUALIFIERS = (
    r"mixed|precision|mixed precision|amp|autocast|training|te|transformer engine|hybrid|delayed|current|scaling|scales"
    r"|block ?(wise|scaled|scaling)?|sub ?channel"
    r"|tensorwise|per tensor|rowwise|per row|cs|ds|mx|recipe|gemms?|linears?|compute|with|and|params?|parameters"
    r"|weights|activations|attention|e4m3|e5m2|in|for|bf16|fp32|master|32|16"
    r"|float8|dynamic|static|tensorcores?|torchao|ao|o[12]|grads?|gradients?|reduc\w+|accumul\w+|optimizer|states?"
    r"|\+|w|loss|scaler|aqt|forward|backward|fwd|bwd|\d+x\d+|\d bit|sc|fp8|float32|blocks?|style|deepseek( v3)?"
    r"|fine ?grained|tiles?|all gather|gather"
)
_NARROWER = r"\b(mxfp4|fp4|fp6|int4|w8a8|1.58|ternary)\b"


def numbers(words: str) -> Numbers:
    """Number formats by the words of a row: the first one named, with words that only say how it is used."""
    if _SIXTEEN.fullmatch(plain(words)):
        return Numbers("bf16", None, f"bf16 as `{words}`, which does not say which 16 bits")
    text = re.sub(r"^(pure|full|true) (\S+)", r"\2 \1", _BEFORE.sub("", plain(words)))
    text = _UNMIXED.sub(r"\1 pure", text)
    found = next(((name, m) for name, p in _FORMATS.items() if (m := re.match(rf"({p})(?!\w)", text))), None)
    if found is None or re.search(_NARROWER, text):
        raise Refused(f"precision `{words}`")
    name, start = found
    rest = text[start.end() :].strip(" .")
    pure = re.fullmatch(r"pure|true|only|full", rest) or re.match(r"pure", rest)
    if not pure and rest and not re.fullmatch(rf"(({_QUALIFIERS})\s*)+", rest):
        raise Refused(f"precision `{words}`")
    reduced = name if pure and name in ("bf16", "fp16") else reduced_in(rest)
    return Numbers(_recipe(plain(words)) if name == "fp8" else name, reduced)  # type: ignore[arg-type]


_RECIPES = (
    (r"\bmx", "mxfp8"),
    (r"block|sub ?channel|\bsc\b|\bds\b|deepseek|fine ?grained|\b128x128\b", "fp8-block"),
    (r"\brow ?wise|per row|axis ?wise", "fp8-rowwise"),
    (r"\bcs\b|current|dynamic|torchao", "fp8-current"),
)


def _recipe(text: str) -> str:
    """How 8 bits are scaled, by the words beside them; one scale a tensor from earlier steps where none is named."""
    return next((recipe for words, recipe in _RECIPES if re.search(words, text)), "fp8")


@dataclass(frozen=True, slots=True)
class Recomputation:
    """What is computed again."""

    what: Recompute | None
    """None where the words leave it open."""
    layers: int | None = None
    """With `full`, of how many layers of the whole model."""
    share: float | None = None
    """With `full`, the share of the layers."""
    assumed: str = ""
    modules: tuple[str, ...] = ()
    """With `selective`, what is dropped besides scores."""
    keeps: tuple[str, ...] = ()
    """With `full`, results that are kept all the same."""


_OPERATORS = re.compile(
    r"(selective|sac)( activation checkpointing| ac)?( mode)? (op|ops|operators?|per op\w*)( ac)?"
    r"|per op\w* (selective )?(ac|sac)|ac selective op"
)
"""Words of torchtitan's checkpointing by operator (torchtitan/distributed/activation_checkpoint.py)."""
KEPT_BY_OPERATOR = ("attention", "reductions", "every-second-product")
_INPUTS = re.compile(
    r"(custom )?((decoder )?layer inputs?|inputs of (decoder )?layers|residual stream)"
    r" offload(ed)?( to (the )?(host|cpu))?"
)


_KEPT = (
    (r"(decoder )?layer inputs?|inputs of (decoder )?layers", ()),
    (r"(query|key|value|qkv) proj", ("attention in",)),
    (r"out proj", ("attention out", "summed")),
    (r"context", ("attention",)),
    (r"mlpwi( [01])?", ("mlp in",)),
    (r"mlpwo", ("mlp out",)),
)
"""Results that MaxText's policy `custom` keeps, by the names of its settings."""
_ON_HOST = re.compile(r"offloaded( to (the )?(host|cpu))?$")


def _custom(text: str) -> tuple[str, ...] | None:
    """What the policy `custom` keeps; None for other words, and for names that are not known."""
    if not text.startswith("custom "):
        return None
    kept: tuple[str, ...] = ()
    left = _ON_HOST.sub("", text.removeprefix("custom "))
    for words, results in _KEPT:
        left, found = re.subn(rf"(?<!\w)({words})(?!\w)", " ", left)
        kept += results if found else ()
    return None if re.sub(r"(?<!\w)(and|are|kept)(?!\w)", "", left).strip() else kept


def inputs_elsewhere(words: str | None) -> bool:
    """Whether layers are computed again from inputs that wait on hosts (MaxText's `decoder_layer_input: offload`)."""
    text = plain(words or "").strip(" .")
    listed = bool(_ON_HOST.search(text)) and (text in POLICIES or _custom(text) is not None)
    return listed or bool(_INPUTS.fullmatch(text))


_ATTENTION = ("attention in", "attention out", "summed")
POLICIES = {
    "minimal": ("products", "summed"),
    "minimal with context": ("products", "summed", "attention"),
    "save dot except mlpwi": (*_ATTENTION, "mlp out"),
    "save dot except mlp": _ATTENTION,
    "save dot with context except mlp": (*_ATTENTION, "attention"),
    "save qkv proj": ("attention in",),
    "save out proj": ("attention out", "summed"),
    "qkv proj offloaded": ("attention in",),
}
"""Results that MaxText's policies keep (AI-Hypercomputer/maxtext, `get_remat_policy`)."""


_BUDGET = re.compile(
    r"((selective(ly)?|sac|ac|torch\.? ?compile|activation checkpointing|mode) )*(activation )?memory budget"
    r"( mode)?( of)?[ =]*(?P<share>\d*\.?\d+)(?P<percent> ?%)?( (torch\.? ?compile|of activations))?"
)
"""Words of `activation_memory_budget` of torch.compile, which torchtitan's `memory_budget` sets."""
_POINTWISE = 0.5
"""Share of a layer's activations that is not the result of a product or of attention, about."""


def _budgeted(share: float) -> Recomputation:
    """What a compiler computes again that may keep a share of the activations: 1 none, 0 all of each layer.

    It drops what takes the fewest FLOPs (torch/_functorch/config.py, `activation_memory_budget_runtime_estimator`), so
    what is not the result of a product or of attention, of more layers the less it may keep; then whole layers.
    """
    if share in (0, 1):
        return Recomputation("none" if share else "full")
    assumed = f"an activation memory budget of {share:g} as "
    if share < _POINTWISE:
        return Recomputation(
            "full", share=1 - share, assumed=f"{assumed}full recomputation of {1 - share:.1%} of the layers"
        )
    dropped = (1 - share) / (1 - _POINTWISE)
    return Recomputation(
        "full",
        share=dropped,
        keeps=("attention", "products"),
        assumed=f"{assumed}all but products and attention computed again in {dropped:.1%} of the layers",
    )


_LEVEL = re.compile(r"(llm\.? ?c )?(r|recompute level)[ =]?(?P<level>[012])")
_LEVELS = (
    Recomputation("none"),
    Recomputation("selective", modules=("activation",)),
    Recomputation("selective", modules=("norm", "activation")),
)
"""Levels of llm.c's option `-r`: nothing, GELU, and norms too (karpathy/llm.c train_gpt2.cu, `recompute`)."""


def recomputation(words: str | None) -> Recomputation:
    """Recomputation by the words of a row; raises Refused for words that are not known."""
    text = re.sub(r"^remat( policy)? (?=\S)", "", plain(re.sub(r"(\d) ?/ ?(\d)", r"\1 of \2", words or ""))).strip(" .")
    if not text or text in ("unknown", "not stated", "default"):
        return Recomputation(None)
    if _INPUTS.fullmatch(text):
        return Recomputation("full")
    keeps = POLICIES.get(text) or _custom(text)
    if keeps is not None:
        return Recomputation("full", keeps=keeps)
    if _OPERATORS.fullmatch(text):
        return Recomputation("full", keeps=KEPT_BY_OPERATOR)
    budget = _BUDGET.fullmatch(text)
    if budget and (share := float(budget["share"]) / (100 if budget["percent"] else 1)) <= 1:
        return _budgeted(share)
    if level := _LEVEL.fullmatch(text):
        return _LEVELS[int(level["level"])]
    if listed := _listed_modules(text):
        return Recomputation("selective", modules=listed)
    every = re.search(
        r"every (\d+)(st|nd|rd|th)?|every (other|second) |selective ac ?option ?(\d+)|selective (\d+)$", text
    )
    if every:
        step = 2 if every[3] else int(next(group for group in (every[1], every[4], every[5]) if group))
        return Recomputation("full", share=1 / max(step, 1))
    if re.fullmatch(r"(full )?half( of)?( the)? (layers|blocks)", text):
        return Recomputation("full", share=0.5)
    part = re.search(r"(\d+)(?: of | */ *)(\d+)", text) or re.search(r"(\d+(?:\.\d+)?) ?%", text)
    if part and re.search(r"layer|block|%", text):
        share = int(part[1]) / max(int(part[2]), 1) if part.lastindex == 2 else float(part[1]) / 100
        return Recomputation("full", share=min(share, 1.0)) if share else Recomputation("none")
    return _plain_recomputation(words, text)


_SELECTIVE = (
    r"selective(ly)?|core ?attention|core attn|attention only|attn|granularity selective|selective ac|ac selective|sac"
)
_FULL = (
    r"full|all|yes|true|on|enabled|activation checkpointing|gradient checkpointing|uniform|block|every layer"
    r"|ac full|full ac|checkpointed|full checkpointing|whole layers?|all layers|remat|full remat|block ?wise"
    r"|(full |unsloth )?(activation|gradient|layer|transformer layer) (re)?(checkpoint\w*|comput\w*)|per layer"
)
_NONE = (
    r"none|no|off|false|disabled|nothing|without|0|no recomputation|ac none|no ac|not used"
    r"|no (activation |gradient )?(re)?(checkpoint\w*|comput\w*)|keep all|save all"
)
_MORE = (
    r"recompute|recomputation|checkpointing|activation|activations|granularity|method|block|uniform|ac|layers?|all"
    r"|short context|(layer ?)?norms?|(moe )?act|moe|experts|mla( up( proj)?)?|attn|gelu|swiglu|silu"
    r"|attention|core|mode|per|gradient|every|transformer|\d+ (layers?|blocks?)|="
    r"|deepspeed|megatron|full|only|uniform \d+|block \d+|et al.?|korthikanti|of|on|enabled|true|yes"
)


def _plain_recomputation(words: str | None, text: str) -> Recomputation:
    for what, pattern in (("none", _NONE), ("selective", _SELECTIVE), ("full", _FULL)):
        named = re.search(rf"^(recompute |recomputation |activation )?({pattern})(?!\w)", text)
        if named and re.fullmatch(rf"(\s*({_MORE})(?!\w))*\s*", text[named.end() :]):
            counted = what == "full" and "uniform" not in text  # of the uniform method the number is a group's size
            layers = re.search(r"(\d+) (layers?|blocks?)", text) if counted else None
            modules = _modules(words) if what == "selective" else ()
            return Recomputation(what, int(layers[1]) if layers else None, modules=modules)  # type: ignore[arg-type]
    raise Refused(f"recomputation `{words}`")


_NONLINEAR = r"(activation )?(gelu|swiglu|silu|geglu|relu|nonlinearity|activation functions?)s?"
_MODULES = (
    (r"(layer ?)?norms?", "norm"),
    (rf"(moe )?act(ivation)?|{_NONLINEAR}", "activation"),
    (r"mla( up)?( proj)?", "latent"),
    (r"moe( layers?)?|experts", "experts"),
)
"""Modules of selective recomputation by their words (Megatron-Core's `recompute_modules`)."""


def _listed_modules(text: str) -> tuple[str, ...]:
    """What is dropped besides scores, of nothing but names of modules: layernorm, mla up proj."""
    names = rf"(layer ?norms?|moe act(ivation)?|mla up proj|norms?|moe( layers?)?|experts|{_NONLINEAR})"
    before, behind = r"(selective(ly)? )?(recompute\w*|recomputation)?( of)? ?", r"( (recompute\w*|recomputation))?"
    listed = re.fullmatch(rf"{before}(?P<parts>{names}((,| and| \+)? {names})*){behind}", text)
    if listed is None:
        return ()
    named = [part[0] for part in re.finditer(names, listed["parts"])]
    return tuple(module for pattern, module in _MODULES if any(re.fullmatch(pattern, name) for name in named))


def _modules(words: str | None) -> tuple[str, ...]:
    """What is dropped besides scores, of a list in brackets: (norm, act)."""
    listed = re.search(r"\(([^()]*)\)", words or "")
    named = [plain(word) for word in re.split(r"[,;+]| and ", listed[1])] if listed else []
    return tuple(module for pattern, module in _MODULES if any(re.fullmatch(pattern, name) for name in named))


_LATENT = re.compile(
    r"mla((?: (?:q lora(?: rank)?|kv lora(?: rank)?|(?:qk )?rope(?: head)?(?: dim)?|(?:qk )?nope(?: head)?(?: dim)?"
    r"|v(?: head)?(?: dim)?)[ =]+\d+)+)"
)
_LATENT_SIZES = {
    "q lora": "q_lora_rank",
    "kv lora": "kv_lora_rank",
    "rope": "qk_rope_head_dim",
    "nope": "qk_nope_head_dim",
    "v": "v_head_dim",
}
_LATENT_ONLY = re.compile(r"(?<!\w)(mla|multi ?head latent( attention)?|latent attention)(?!\w)")


_BOTH_WAYS = re.compile(r"(?<!\w)(bi ?directional|non ?causal|not causal)(?!\w)")


def is_causal(words: str | None) -> bool:
    """Whether a token attends to its past alone, as it does unless words say otherwise (encoders such as BERT)."""
    return not _BOTH_WAYS.search(plain(words or ""))


def is_latent(words: str | None) -> bool:
    """Whether words name latent attention."""
    return bool(_LATENT_ONLY.search(plain(words or "")))


_WINDOW = re.compile(r"(alternating )?(?:sliding window|swa)(?: attention)?(?: of| size)?[ =]+(\d+)")


def shape_of_attention(words: str | None) -> dict[str, Any]:
    """Fields of the model that the words on its attention state: sizes of latents, layers with a window."""
    text = plain(words or "")
    if latent := _LATENT.search(text):
        sizes = re.findall(r"([a-z ]+?)[ =]+(\d+)", latent[1])
        short = ((re.sub(r"^qk |( rank| head| dim)+$", "", name.strip()), int(size)) for name, size in sizes)
        return {"attention": "mla"} | {_LATENT_SIZES[name]: size for name, size in short}
    if is_latent(words):
        return {"attention": "mla"}
    if window := _WINDOW.search(text):
        size = int(window[2])
        return {"pattern": [{"window": size}, {}]} if window[1] else {"window": size}
    return {}


def attention(words: str | None, *others: str | None) -> Literal["fused", "unfused"] | None:
    """Attention kernels by the row's key, else by what its framework and flags name; None for the stack's.

    Raises Refused for an attention that is no plain multi-head, grouped or multi-query one.
    """
    text = _BOTH_WAYS.sub(" ", _LATENT_ONLY.sub(" ", _WINDOW.sub(" ", _LATENT.sub(" ", hybrids.beside(words)))))
    plain_kinds = (
        r"(mha|gqa|mqa|multi ?head|multi query|grouped query|dense|causal|full|attention|self|rope|\d+|kv|heads?"
        r"|alibi|rotary|learned|absolute|positions?|positional|embeddings?|groups?|bf16|fp16|with|and|no bias)"
    )
    fused = (
        r"flash ?(attention|attn)( ?v?[123])?|fa ?[123]|fused|cudnn|sdpa|scaled dot product( attention)?|splash"
        r"|memory efficient|xformers|te|triton( flash)?|flex ?(attention|attn)?|aiter|ck|composable kernel"
        r"|dot ?product ?attention|flash"
    )
    unfused = r"unfused|standard|eager|naive|vanilla|core"
    rest = re.sub(rf"(?<!\w)({fused}|{unfused}|{plain_kinds})(?!\w)", " ", text)
    if re.sub(r"[\s.,+=]", "", rest):
        raise Refused(f"attention `{words}`")
    if re.search(rf"(?<!\w)({unfused})(?!\w)", text):
        return "unfused"
    if re.search(rf"(?<!\w)({fused})(?!\w)", text):
        return "fused"
    named = " ; ".join(plain(other or "") for other in others)
    if re.search(r"(no|without|w o|disable[d]?) flash ?(attention|attn)|flash ?(attention|attn)=(false|0|off)", named):
        return "unfused"
    return "fused" if re.search(r"flash ?(attention|attn)", named) else None


TASKS = re.compile(
    r"(pre ?)?train(ing)?( .*)?|lora( (fine ?tun(e|ing)|sft))?|sft|(full |supervised )?fine ?tun(e|ing)|full sft"
    r"|continued pre ?train(ing)?"
)
UNBUILT = (
    (r"(?<!lora )adapters?", r"no (lora|adapters?)|peft adapters?", "adapters other than LoRA"),
    (r"nvme|zero ?infinity", r"no nvme", "states on NVMe"),
)
"""What flags name and is not built: (its words, words that say that it is off, name)."""


def unbuilt(*texts: str | None) -> list[str]:
    """What the free words of a row name that no part of a scenario stands for."""
    text = " ; ".join(plain(found or "") for found in texts)
    return [
        name
        for words, absent, name in UNBUILT
        if re.search(rf"(?<![a-z])({words})(?![a-z])", re.sub(rf"(?<![a-z])({absent})\w*", " ", text))
    ]


_LOSS_IN_PARTS = re.compile(r"(chunked|tiled|fused linear|cut) (cross entropy|loss|linear cross entropy)")


def loss_in_parts(*texts: str | None) -> bool:
    """Whether the words of a row say that its loss never holds all logits at once, as it does where it is simulated."""
    return any(_LOSS_IN_PARTS.search(plain(text or "")) for text in texts)


_NOTOFFLOADED = re.compile(r"(no|without|w o) (\w+ )?offload\w*|(\w+ )*offload\w* ?= ?(false|0|off|none)")


def offload(zero: int | None, *texts: str | None) -> Offload | None:
    """What lives on hosts by the words of a row, None for nothing. An `offload` that does not say of what is that of
    the optimizer, and under ZeRO-3 of the parameters too (DeepSpeed's ZeRO-Offload and ZeRO-3 Offload)."""
    said = " ; ".join(_NOTOFFLOADED.sub(" ", plain(text or "")) for text in texts)
    if not re.search(r"(?<![a-z])offload", said):
        return None
    named = " ; ".join(found[0] for found in OFFLOADED.finditer(said))
    activations, parameters = (bool(re.search(words, named)) for words in (r"activation", r"param"))
    optimizer = parameters or not activations or bool(re.search(r"optim|states?", named))
    return Offload(
        activations=ActivationOffload() if activations else None,
        optimizer=OptimizerOffload() if optimizer else None,
        parameters=ParameterOffload() if parameters or (zero == 3 and optimizer and "optim" not in named) else None,
    )


def inputs_offloaded(found: Offload | None, recompute: str | None) -> Offload | None:
    """What lives on hosts, with the inputs of layers where the words on recomputation say so."""
    if not inputs_elsewhere(recompute):
        return found
    inputs = ActivationOffload()
    return Offload(activations=inputs) if found is None else found.model_copy(update={"activations": inputs})


_MTP = re.compile(r"(?<![a-z])(mtp|multi token prediction)(?![a-z])")
_NO_MTP = re.compile(
    r"(w o|no|without|non|disabled?) (mtp|multi token prediction)"
    r"|(mtp|multi token prediction)( (modules?|layers?|heads?))? ?=? ?(is |are )?"
    r"(0(?![\w.])|(off|false|none|disabled|excluded|not (used|included|trained)|left out)(?!\w))"
)


def predicting(*texts: str | None) -> int:
    """Modules for multi-token prediction by the words of a row, which name none but the one of DeepSeek-V3."""
    said = " ; ".join(plain(found or "") for found in texts)
    return int(bool(_MTP.search(_NO_MTP.sub(" ", said))))


LORA_TARGETS = ("attention in", "attention out")
"""Products that published runs adapt: those of attention (MLPerf Training llama2_70b_lora, NeMo's `attention`)."""
LORA_EVERYWHERE = (*LORA_TARGETS, "mlp in", "mlp out")
_EVERYWHERE = re.compile(r"(?<![a-z])(all|every|each)( the)? linears?( layers?)?|attention and (the )?mlp")
_QUANTIZED = re.compile(r"(?<![a-z])qlora(?![a-z])")


def lora(task: str, *texts: str | None, usual: str = "") -> tuple[Lora | None, list[str]]:
    """(adapters by the words of a row, what they leave open); None where everything is trained. `usual` are words of
    what the framework adapts unless it is told otherwise."""
    said = " ; ".join(plain(found or "") for found in (task, *texts))
    whole = re.match(r"full(?!.*lora)", plain(task))
    if whole or not re.search(r"(?<![a-z])q?lora(?![a-z])", re.sub(r"no lora", " ", said)):
        return None, []
    said = f"{said} ; {plain(usual)}"
    rank = re.search(r"rank[ =]*(\d+)|r ?= ?(\d+)", said)
    size = int(next(size for size in rank.groups() if size)) if rank else 16
    everywhere, quantized = _EVERYWHERE.search(said), _QUANTIZED.search(said)
    targets = LORA_EVERYWHERE if everywhere else LORA_TARGETS
    thinned = re.search(r"lora dropout[ =]*(0?\.\d+)", said)
    dropout = float(thinned[1]) if thinned else 0.0
    found = Lora(rank=size, targets=targets, dropout=dropout, base_format="nf4" if quantized else None)
    assumed = [] if everywhere else ["adapters beside the products of attention"]
    assumed += [] if rank else [f"adapters of rank {size}"]
    assumed += [f"adapters as the framework has them unless told otherwise: {usual}"] if usual else []
    return found, assumed + (["frozen weights in 4 bits as QLoRA stores them (nf4)"] if quantized else [])


def accumulated(*texts: str | None) -> int | None:
    """Microbatches that a rank accumulates, by the words of a row; None where they do not say."""
    said = re.search(r"(grad(ient)? )?accum\w* (\d+)", " ; ".join(plain(found or "") for found in texts))
    return int(said[3]) if said else None


_MEANT = r"(?<!\w)(?<!no )(?<!not )(?<!without )(?<!instead of )"
"""Before words that say what is, and not what is not."""


def _meant(kinds: Sequence[tuple[str, str]], texts: Iterable[str | None]) -> str | None:
    """The first of some (words, kind) whose words texts say, and do not deny; None where they say none."""
    said = " ; ".join(plain(text or "") for text in texts)
    return next((kind for words, kind in kinds if re.search(rf"{_MEANT}({words})(?!\w)", said)), None)


_CONTEXTS = (
    (r"zigzag(?! free)", "zigzag"),
    (r"striped", "striped"),
    (r"lightseq|dist(ributed)? ?flash ?att\w*", "lightseq"),
    (r"ulysses|sequence parallel\w* by all to all|all to all sequence parallel\w*", "ulysses"),
    (r"ring ?(flash )?att\w*", "ring"),
    (r"all ?gather (based )?(cp|context parallel\w*)|(cp|context parallel\w*) (by|with) all ?gather", "all-gather"),
)


def context(*texts: str | None) -> str | None:
    """The kind of context parallelism that the words of a row name; None where they name none."""
    return _meant(_CONTEXTS, texts)


_GRAPHED = re.compile(r"(?<!no )(?<!without )(?<!\w)cuda ?graphs?( scopes?)? ?(?:of|over|for|on|=) ?(.*)")
_WHOLE_GRAPH = re.compile(r"(?<!\w)(full|whole) iteration( cuda)? ?graphs?|cuda ?graphs?.*\W(full|whole) iteration")
_CAPTURED = (("attention", r"attn|attention"), ("router", r"(moe )?router"))


def graphs(flags: str | None) -> tuple[str, ...]:
    """What is captured in CUDA graphs, of words that list parts of layers or name the whole iteration."""
    said = [plain(text) for text in (flags or "").split(";")]
    if any(_WHOLE_GRAPH.search(text) for text in said):
        return ("all",)
    listed = " ".join(found[2] for text in said if (found := _GRAPHED.search(text)))
    return tuple(part for part, words in _CAPTURED if re.search(rf"(?<!\w)({words})(?!\w)", listed))


def quantized_attention(flags: str | None) -> bool:
    """Whether words say that attention multiplies in 8 bits."""
    return bool(re.search(r"(?<!no )(fp8|mxfp8) (dot product )?attention|fp8 dpa", plain(flags or "")))


_KERNELS = (
    (r"cudnn", "cudnn"),
    (r"flash ?(att\w*)? ?(v ?)?3|fa ?3", "fa3"),
    (r"flash ?(att\w*)? ?(v ?)?2|fa ?2", "fa2"),
)


def attention_kernel(*texts: str | None) -> str | None:
    """The generation of the fused kernel of attention that the words of a row name; None where they name none."""
    return _meant(_KERNELS, texts)


_FUSED_LAYERS = re.compile(
    r"(?<!\w)(?<!no )(?<!without )(liger|unsloth|xtuner|fused (rms ?norms?|norms?|rope|rotary|layer ?norms?))(?!\w)"
)


def fused_layers(*texts: str | None) -> bool:
    """Whether norms and positions of model code give way to kernels of their own, by the words of a row: XTuner
    (InternLM/xtuner, xtuner/model/modules/dispatch), Liger and Unsloth put theirs in."""
    return any(_FUSED_LAYERS.search(plain(text or "")) for text in texts)


_CHECKPOINTED = re.compile(r"(?<!\w)(metaseq|fairseq)(?!\w)")


def checkpoints(framework: str | None) -> bool:
    """Whether launchers of a framework compute layers again unless they are told not to (fairseq and metaseq, whose
    sweeps pass `--checkpoint-activations` without `--no-ckpt`)."""
    return bool(_CHECKPOINTED.search(plain(framework or "")))


HARDWARE = re.compile(
    r"\bhardware\b(?!\s*utili[sz])|\b4 ?x ?2? ?(fwd|forward|coefficient)|\b96 ?\*? ?b|counts? recomput"
)
"""FLOPs with the recomputed forward pass, by the words of a row."""
_MODEL_FLOPS = re.compile(r"(without|no|not counting|excluding|excludes?) (the )?(recomput\w*|hardware)")


def counts_recomputation(words: str | None) -> bool:
    """Whether FLOPs are counted with the recomputed forward pass."""
    text = re.sub(r"[^a-z0-9*()]+", " ", (words or "").lower())
    text = _MODEL_FLOPS.sub(" ", text)
    if re.match(r"(bf16 |dense )*(mfu|model flops)", text):
        return False
    return bool(HARDWARE.search(text) or "recompute" in text or "recomputation" in text)


_HALVED = re.compile(
    r"(?<!non )(?<!not )halved|half (of )?(the |a )?(causal|attention|scores|square|mask)|causal (only|half)"
)
_MEGATRON_CORE = re.compile(r"megatron ?(core|bridge)|mcore")


def counts_half_square(words: str | None, framework: str | None, experts: bool) -> bool:
    """Whether FLOPs count only the scores that a causal mask leaves.

    Megatron-Core's own counter does since it knows mixtures of experts and latent attention (2025, NVIDIA/Megatron-LM
    megatron/training/training.py, `num_floating_point_operations`); of dense models it counted the square before.
    """
    text = re.sub(r"[^a-z0-9]+", " ", (words or "").lower())
    if _HALVED.search(text):
        return True
    counter = re.search(r"(?<!\w)(counter|formula)(?!\w)", text) and _MEGATRON_CORE.search(text)
    return bool(experts and counter and _MEGATRON_CORE.search(plain(framework or "")))
