"""The shape of a model from its Hugging Face `config.json`.

Each family of the transformers library names its sizes in its own way and leaves out what its class defaults to; the
functions here say which key is which field, family by family (defaults as in transformers 4.40 to 4.57). What a config
says and the model's shape cannot express (towers for sound) is named in `source`, so that it is seen; what changes the
shape itself (compressed attention) is refused.
"""

from collections.abc import Callable, Mapping
from typing import Any

from simulator.errors import InputError, Problem, nearest
from simulator.interop.huggingface.config import Config
from simulator.interop.huggingface.encoded import ENCODED
from simulator.interop.huggingface.hybrids import HYBRIDS
from simulator.interop.huggingface.layered import LAYERED
from simulator.interop.huggingface.quantized import quantization
from simulator.interop.huggingface.towers import tower
from simulator.interop.huggingface.usual_keys import further_tokens, llama, sizes
from simulator.specs.files.foreign import Translation

Family = Callable[[Config], None]


def translate(config: Mapping[str, Any]) -> Translation:
    """The fields of a model that a `config.json` describes.

    Raises InputError naming the keys that are missing or wrong, or the architecture that is not known.
    """
    outer = config
    config, prefix = _text_model(config)
    kind = _kind(config, prefix)
    taken = Config(config, prefix)
    if kind not in PATTERNED:
        _alike(taken)
    FAMILIES[kind](taken)
    if kind not in PATTERNED:
        _windows(taken, kind)
    words, closest = quantization({**outer, **config})
    taken.take("quantization", ("quantization_config",), words or None)
    taken.take("quantized", ("quantization_config",), closest)
    tower(taken, outer)
    taken.take("name", ("_name_or_path",), _name(config, kind))
    left_out = f"; left out: {', '.join(taken.left_out)}" if taken.left_out else ""
    taken.imply(source=f"Hugging Face config.json, model_type {kind}{left_out}")
    return taken.translation()


def _text_model(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The language model of a config of several models (images and text), and the key that it stands under."""
    inner = config.get("text_config")
    kind = str(config.get("model_type"))
    whole = kind in REFUSED or (kind in FAMILIES and config.get("hidden_size") is not None)
    if isinstance(inner, Mapping) and not whole:
        return inner, "text_config"
    return config, ""


def _kind(config: Mapping[str, Any], prefix: str) -> str:
    kind = config.get("model_type")
    path = f"{prefix}.model_type" if prefix else "model_type"
    if kind is None:
        hint = "name the config.json of a Hugging Face model, or a YAML file with our own keys"
        raise InputError(Problem("`model_type` is missing", path=path, hint=hint))
    if not isinstance(kind, str):
        raise InputError(Problem("`model_type` is not text", path=path))
    if kind in REFUSED:
        raise InputError(Problem(f"`{kind}` cannot be simulated: {REFUSED[kind]}", path=path))
    if kind not in FAMILIES:
        near = nearest(kind, FAMILIES)
        hint = near if near.startswith("did") else f"known: {', '.join(sorted(FAMILIES))}"
        raise InputError(Problem(f"architecture `{kind[:80]}` is not known", path=path, hint=hint))
    return kind


def _name(config: Mapping[str, Any], kind: str) -> str:
    named = config.get("_name_or_path")
    return named[:200] if isinstance(named, str) and named.strip() else f"{kind} model"


def _windows(config: Config, kind: str) -> None:
    """Sliding windows: how far they reach, and how many layers have them."""
    if config.entries.get("sliding_window") is None or config.entries.get("use_sliding_window") is False:
        return
    window, layers = config.whole("sliding_window"), config.fields.get("layers")
    if window is None or not isinstance(layers, int):
        return
    count = _windowed(config, kind, layers)
    if count:
        config.take("window", ("sliding_window",), window)
        config.take("windowed_layers", ("layer_types", "sliding_window_pattern", "sliding_window"), count)


def _windowed(config: Config, kind: str, layers: int) -> int:
    """Layers with a window: those that are listed, or as the family's class has them where none are."""
    types = config.entries.get("layer_types")
    if isinstance(types, list) and types:
        return sum(isinstance(name, str) and name.startswith("sliding") for name in types)
    if kind in ("gemma2", "gpt_oss"):
        return -(-layers // 2)
    if kind == "gemma3_text":
        return layers - layers // (config.whole("sliding_window_pattern", default=6) or 6)
    if kind.startswith("qwen"):
        return max(0, layers - (config.whole("max_window_layers", default=layers) or layers))
    return layers


PATTERNED = {**LAYERED, **HYBRIDS}
"""Families whose layers differ, which read the keys that say so."""
_ALIEN = (
    (("kv_lora_rank", "q_lora_rank"), "multi-head latent attention"),
    (("index_topk", "index_n_heads"), "attention to tokens that an index chooses"),
    (("linear_num_value_heads", "linear_attn_config", "linear_key_head_dim"), "linear attention"),
    (("hybrid_override_pattern", "mamba_num_heads", "mamba_d_state", "ssm_state_size"), "state-space layers"),
    (("block_configs",), "layers that differ in shape"),
    (("first_k_dense_replace",), "dense layers before the mixtures"),
    (("global_head_dim", "num_global_key_value_heads"), "heads of two sizes"),
)
"""Keys of what the shape of a model cannot say, in whichever family they stand."""


def _alike(config: Config) -> None:
    """Refuse a config that says that its layers are other than the family's, whatever its `model_type`."""
    for keys, name in _ALIEN:
        key = next((key for key in keys if config.entries.get(key)), None)
        if key is not None:
            config.wrong(key, f"{name}: not modelled yet")
    for key in ("layer_types", "attn_type_list"):
        kinds = config.entries.get(key)
        known = ("full_attention", "sliding_attention", "attention", 1)
        other = next((kind for kind in kinds if kind not in known), None) if isinstance(kinds, list) else None
        if other is not None:
            config.wrong(key, f"layers of `{str(other)[:40]}`: not modelled yet")


def _qwen2(config: Config) -> None:
    llama(config)
    config.left_out.append("biases of query, key and value")


def _qwen3(config: Config) -> None:
    llama(config)
    config.number("head_dim", "head_dim", default=128)
    config.imply(head_norms=True)


def _phi3(config: Config) -> None:
    llama(config)
    if isinstance(config.entries.get("partial_rotary_factor"), float):
        config.left_out.append("rotary positions on a part of each head only")


def _mixtral(config: Config) -> None:
    llama(config)
    config.number("experts", "num_local_experts", default=8)
    config.number("top_k", "num_experts_per_tok", default=2)
    config.take("expert_ffn", ("intermediate_size",), config.fields.get("ffn"))


def _gpt_oss(config: Config) -> None:
    _mixtral(config)
    config.number("experts", "num_local_experts", "num_experts", default=128)
    config.number("top_k", "num_experts_per_tok", "experts_per_token", default=4)
    config.number("head_dim", "head_dim", default=64)
    config.imply(biases=True)
    config.imply(attention_sinks=True)
    config.imply(expert_biases=True)
    config.imply(clamped_gate=True)


def _qwen3_moe(config: Config) -> None:
    _qwen3(config)
    config.number("experts", "num_experts", default=128)
    config.number("top_k", "num_experts_per_tok", default=8)
    config.number("expert_ffn", "moe_intermediate_size")
    _every_layer(config)


def _minimax_m2(config: Config) -> None:
    """MiniMax-M2: experts in every layer, of the width that `intermediate_size` says."""
    _mixtral(config)
    config.number("head_dim", "head_dim", default=128)
    if config.entries.get("shared_intermediate_size"):
        config.wrong("shared_intermediate_size", "shared experts of their own width: not modelled yet")
    if config.entries.get("use_qk_norm") and config.entries.get("qk_norm_type") == "per_layer":
        config.imply(norm_across_heads=True)
    config.left_out += ["rotary positions on a part of each head only"]
    further_tokens(config, "num_mtp_modules")


def _mimo(config: Config) -> None:
    _qwen2(config)
    further_tokens(config, "num_nextn_predict_layers")


def _qwen2_moe(config: Config) -> None:
    _qwen2(config)
    config.number("experts", "num_experts", default=60)
    config.number("top_k", "num_experts_per_tok", default=4)
    width = config.number("expert_ffn", "moe_intermediate_size")
    shared = config.whole("shared_expert_intermediate_size")
    if width and shared and shared % width:
        config.wrong("shared_expert_intermediate_size", f"{shared} is no multiple of moe_intermediate_size {width}")
    elif width and shared:
        config.take("shared_experts", ("shared_expert_intermediate_size",), shared // width)
    _every_layer(config)


def _every_layer(config: Config) -> None:
    """Refuse mixtures whose layers are not all alike."""
    if config.whole("decoder_sparse_step", default=1) not in (None, 1):
        config.wrong("decoder_sparse_step", "only models with experts in every layer can be described", "")
    if config.entries.get("mlp_only_layers"):
        config.wrong("mlp_only_layers", "only models with experts in every layer can be described", "")


def _gemma(config: Config) -> None:
    llama(config)
    config.number("head_dim", "head_dim", default=256)
    config.flag("tied_embeddings", "tie_word_embeddings", True)


def _gemma2(config: Config) -> None:
    _gemma(config)
    config.left_out.append("norms after attention and MLP")


def _gemma3(config: Config) -> None:
    """Gemma 3; configs of the models with images leave out what their class defaults to."""
    entries = {"num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 262_208}
    config.entries = {**entries, **{key: value for key, value in config.entries.items() if value is not None}}
    _gemma2(config)


def _opt(config: Config) -> None:
    sizes(config, kv_heads=False)
    config.number("ffn", "ffn_dim")
    config.flag("tied_embeddings", "tie_word_embeddings", True)
    config.flag("biases", "enable_bias", True)
    config.imply(position="learned", norm="layernorm")
    if config.entries.get("word_embed_proj_dim") not in (None, config.fields.get("hidden")):
        config.left_out.append("the projection of narrower embeddings")


def _gpt2(config: Config) -> None:
    sizes(config, kv_heads=False)
    config.optional("ffn", "n_inner")
    config.flag("tied_embeddings", "tie_word_embeddings", True)
    config.imply(position="learned", norm="layernorm", biases=True)


def _gptj(config: Config) -> None:
    _gpt2(config)
    config.flag("tied_embeddings", "tie_word_embeddings", False)
    config.imply(position="rotary", parallel_mlp=True)


def _gpt_neox(config: Config) -> None:
    sizes(config, kv_heads=False)
    config.number("ffn", "intermediate_size")
    config.flag("tied_embeddings", "tie_word_embeddings", False)
    config.imply(position="rotary", norm="layernorm", biases=True)
    if config.switch("use_parallel_residual", True):
        config.imply(parallel_mlp=True)


def _bloom(config: Config) -> None:
    sizes(config, kv_heads=False)
    config.flag("tied_embeddings", "tie_word_embeddings", True)
    config.imply(position="alibi", norm="layernorm", biases=True)


def _falcon(config: Config) -> None:
    """Falcon 7B (one key head), 40B and 180B (new decoder architecture, grouped), and the older RefinedWeb names."""
    sizes(config, kv_heads=False)
    grouped = config.switch("new_decoder_architecture", config.entries.get("model_type") == "RefinedWeb")
    if grouped:
        config.number("kv_heads", "num_kv_heads", "n_head_kv")
    elif config.switch("multi_query", True):
        config.take("kv_heads", ("multi_query",), 1)
    config.optional("ffn", "ffn_hidden_size")
    config.flag("tied_embeddings", "tie_word_embeddings", True)
    config.flag("biases", "bias", False)
    config.take("position", ("alibi",), "alibi" if config.switch("alibi", False) else "rotary")
    config.imply(norm="layernorm")
    if grouped or config.switch("parallel_attn", True):
        config.imply(parallel_mlp=True)


def _phi(config: Config) -> None:
    sizes(config)
    config.number("ffn", "intermediate_size")
    config.flag("tied_embeddings", "tie_word_embeddings", False)
    config.imply(position="rotary", norm="layernorm", biases=True, parallel_mlp=True)


def _starcoder2(config: Config) -> None:
    sizes(config)
    config.number("ffn", "intermediate_size")
    config.flag("tied_embeddings", "tie_word_embeddings", True)
    config.flag("biases", "use_bias", True)
    config.imply(position="rotary", norm="layernorm")


FAMILIES: dict[str, Family] = {
    "bloom": _bloom,
    "falcon": _falcon,
    "RefinedWeb": _falcon,
    "RefinedWebModel": _falcon,
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt2": _gpt2,
    "gpt_neox": _gpt_neox,
    "gpt_oss": _gpt_oss,
    "gptj": _gptj,
    "llama": llama,
    "mimo": _mimo,
    "minimax_m2": _minimax_m2,
    "mistral": llama,
    "mixtral": _mixtral,
    "opt": _opt,
    "phi": _phi,
    "phi3": _phi3,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen2_5_vl": _qwen2,
    "qwen2_5_vl_text": _qwen2,
    "qwen2_vl": _qwen2,
    "qwen2_vl_text": _qwen2,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe_text": _qwen3_moe,
    "qwen3_vl_text": _qwen3,
    "starcoder2": _starcoder2,
    **LAYERED,
    **HYBRIDS,
    **ENCODED,
}
"""Architectures by `model_type`."""

_STATE = "its layers are not all attention"
_COMPRESSED = "its attention to compressed tokens (CSA, HCA) and its four residual streams are not modelled"
_LINEAR = "its linear attention is not read from a config yet"
REFUSED = {
    "deepseek_v4": _COMPRESSED,
    "deepseek_ref": _COMPRESSED,
    "minimax_m3": "its attention to blocks of tokens that an index chooses is not modelled",
    "minimax": _LINEAR,
    "minicpm3": "the widths of its residual branches are not modelled",
    "bamba": _STATE,
    "falcon_mamba": _STATE,
    "mamba": _STATE,
    "rwkv": _STATE,
    "bert": "it generates nothing",
}
"""Architectures that a reader may well try, and why they are refused."""
