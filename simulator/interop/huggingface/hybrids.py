"""Families with layers that carry a state: Qwen3-Next and 3.5, Kimi Linear and K3, Nemotron-H and 3, Jamba, Mamba-2."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from simulator.interop.huggingface.config import Config
from simulator.interop.huggingface.layered import Layer, dense_layers, pattern
from simulator.interop.huggingface.usual_keys import further_tokens, llama, sizes

LETTERS = {"mamba": "M", "moe": "E", "attention": "*", "mlp": "-"}
"""Letters of a pattern by the names of `layers_block_type`."""


def _linear(config: Config, **keys: str) -> None:
    """Sizes of the layers with a state, each under the key that is named."""
    found: dict[str, str | int | bool] = {name: config.whole(key) or 1 for name, key in keys.items()}
    config.take("linear", tuple(keys.values()), found)


def _mixture(config: Config, shared: str, shared_ffn: str, latent: str) -> None:
    """Experts; the keys of shared ones, of their width together, and of the width at which rows visit experts."""
    config.number("experts", "n_routed_experts", "num_experts")
    config.number("top_k", "num_experts_per_tok", "num_experts_per_token")
    config.number("expert_ffn", "moe_intermediate_size", "intermediate_size")
    config.optional("shared_experts", shared)
    config.optional("shared_ffn", shared_ffn)
    config.optional("expert_hidden", latent)


def _layers(config: Config, layers: list[Layer], *keys: str) -> None:
    if found := pattern(layers):
        config.take("pattern", keys, found)


def _depth(config: Config) -> int:
    found = config.fields.get("layers")
    return found if isinstance(found, int) else 0


def gated_delta(config: Config) -> None:
    """Qwen3-Next and Qwen3.5: gated delta net, and gated attention in every fourth layer."""
    mixture = config.entries.get("num_experts") is not None
    if mixture:
        width = config.entries.get("intermediate_size") or config.entries.get("moe_intermediate_size")
        config.entries = {**config.entries, "intermediate_size": width}
    llama(config)
    config.number("head_dim", "head_dim", default=256)
    config.imply(attention="delta")
    config.flag("attention_gate", "attn_output_gate", True)
    _linear(
        config,
        key_heads="linear_num_key_heads",
        value_heads="linear_num_value_heads",
        key_dim="linear_key_head_dim",
        value_dim="linear_value_head_dim",
        conv="linear_conv_kernel_dim",
    )
    if mixture:
        _mixture(config, "", "shared_expert_intermediate_size", "")
        config.imply(shared_experts=1)
        if config.entries.get("mlp_only_layers"):
            config.wrong("mlp_only_layers", "only models with experts in every layer can be described", "")
    kinds, every = config.entries.get("layer_types"), config.whole("full_attention_interval", default=4) or 4
    if not isinstance(kinds, list):
        kinds = ["linear_attention" if (i + 1) % every else "full_attention" for i in range(_depth(config))]
    full: Layer = {"attention": "grouped"}
    _layers(config, [full if kind == "full_attention" else {} for kind in kinds], "layer_types")
    config.left_out += ["rotary positions on a part of each head only"]
    further_tokens(config, "mtp_num_hidden_layers")


def nemotron_h(config: Config) -> None:
    """Nemotron-H and Nemotron 3: Mamba-2, a few layers of attention, and MLPs or experts, each a layer of its own."""
    names, letters = config.entries.get("layers_block_type"), config.entries.get("hybrid_override_pattern")
    if isinstance(names, list):
        letters = "".join(LETTERS.get(str(name), "?") for name in names)
    if not isinstance(letters, str) or not letters or set(letters) - set(LETTERS.values()):
        config.wrong("hybrid_override_pattern", "is no pattern of M, E, * and -")
        letters = "M"
    config.entries = {"num_hidden_layers": len(letters), **config.entries}
    sizes(config)
    if config.fields.get("layers") != len(letters):
        config.wrong("num_hidden_layers", f"is not the {len(letters)} letters of the pattern")
    config.number("head_dim", "head_dim", "attention_head_dim", default=128)
    config.number("ffn", "intermediate_size")
    config.flag("tied_embeddings", "tie_word_embeddings", False)
    config.imply(gated_ffn=False, position="none", norm="rmsnorm", attention="mamba2", biases=False)
    config.take("pattern", ("layers_block_type", "hybrid_override_pattern"), letters)
    _linear(
        config,
        key_heads="n_groups",
        value_heads="mamba_num_heads",
        key_dim="ssm_state_size",
        value_dim="mamba_head_dim",
        conv="conv_kernel",
        chunk="chunk_size",
    )
    if "E" in letters:
        _mixture(config, "n_shared_experts", "moe_shared_expert_intermediate_size", "moe_latent_size")
    further_tokens(config, "num_nextn_predict_layers")
    _module(config)


def _module(config: Config) -> None:
    """The blocks of a module for multi-token prediction: one of attention, one of experts."""
    names, letters = config.entries.get("mtp_layers_block_type"), config.entries.get("mtp_hybrid_override_pattern")
    if "mtp_layers" not in config.fields or (names is None and letters is None):
        return
    said = [LETTERS.get(str(name), "?") for name in names] if isinstance(names, list) else list(str(letters))
    if said != ["*", "E"]:
        config.wrong("mtp_hybrid_override_pattern", "only modules of attention and experts (`*E`) can be described", "")
    config.take("mtp", ("mtp_layers_block_type", "mtp_hybrid_override_pattern"), {"attention": "grouped", "mlp": "moe"})


def kimi_linear(config: Config) -> None:
    """Kimi Linear and Kimi K3: Kimi delta attention, and latent attention without positions in the layers that are
    listed, the first one numbered 1."""
    sizes(config, kv_heads=False)
    config.number("ffn", "intermediate_size")
    config.flag("tied_embeddings", "tie_word_embeddings", False)
    config.imply(gated_ffn=True, position="none", norm="rmsnorm", attention="kda", biases=False)
    config.optional("q_lora_rank", "q_lora_rank")
    for key in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        config.number(key, key)
    config.flag("attention_gate", "mla_use_output_gate", False)
    _mixture(config, "num_shared_experts", "", "routed_expert_hidden_size")
    own = config.entries.get("linear_attn_config")
    own = own if isinstance(own, Mapping) else {}
    heads, size = (_inner(config, own, key) for key in ("num_heads", "head_dim"))
    linear = {"key_heads": heads, "value_heads": heads, "key_dim": size, "value_dim": size, "decay_rank": size}
    linear |= {"conv": _inner(config, own, "short_conv_kernel_size")}
    linear |= {} if own.get("use_full_rank_gate") is True else {"gate_rank": size}
    config.take("linear", ("linear_attn_config",), dict(linear))
    full = own.get("full_attn_layers")
    full = full if isinstance(full, list) else []
    dense = dense_layers(config, _depth(config))
    attends = [i + 1 in full for i in range(_depth(config))]
    _layers(config, _pairs("mla", attends, dense), "linear_attn_config")
    further_tokens(config, "num_nextn_predict_layers")


def _pairs(attention: str, attends: Sequence[bool], dense: Sequence[bool]) -> list[Layer]:
    """Layers of which some have that kind of attention, and some a dense MLP."""
    layers: list[Layer] = []
    for looks_back, plain in zip(attends, dense, strict=True):
        layer: Layer = {"attention": attention} if looks_back else {}
        layers.append(layer | {"mlp": "dense"} if plain else layer)
    return layers


def _inner(config: Config, own: Mapping[str, Any], key: str) -> int:
    """A positive whole number of `linear_attn_config`."""
    value = own.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        config.wrong("linear_attn_config", f"has no positive whole number `{key}`")
        return 1
    return value


def jamba(config: Config) -> None:
    """Jamba: Mamba-1 with attention in one layer of each period, experts in every second layer."""
    llama(config)
    config.imply(position="none", attention="mamba1")
    inner = (config.whole("mamba_expand", default=2) or 2) * (config.whole("hidden_size") or 1)
    config.number("experts", "num_experts", default=16)
    config.number("top_k", "num_experts_per_tok", default=2)
    config.number("expert_ffn", "intermediate_size")
    linear = {"value_heads": inner, "key_dim": config.whole("mamba_d_state", default=16) or 16}
    linear |= {"conv": config.whole("mamba_d_conv", default=4) or 4}
    if isinstance(config.entries.get("mamba_dt_rank"), int):
        linear["decay_rank"] = config.whole("mamba_dt_rank") or 1
    config.take("linear", ("mamba_d_state",), dict(linear))
    attention, experts = _periodic(config, "attn_layer", 8, 4), _periodic(config, "expert_layer", 2, 1)
    _layers(config, _pairs("grouped", attention, [not mixes for mixes in experts]), "attn_layer_period")
    config.left_out += ["norms of time steps and of states' inputs"]


def _periodic(config: Config, key: str, period: int, offset: int) -> list[bool]:
    """Whether each layer is the one at `offset` of its period; an offset may be 0."""
    every = config.whole(f"{key}_period", default=period) or period
    given = config.entries.get(f"{key}_offset")
    start = given if isinstance(given, int) and not isinstance(given, bool) else offset
    return [i % every == start for i in range(_depth(config))]


def mamba2(config: Config) -> None:
    """Mamba-2 as the transformers library has it: no MLPs."""
    config.number("layers", "num_hidden_layers")
    config.number("hidden", "hidden_size")
    config.number("heads", "num_heads")
    config.number("vocabulary", "vocab_size")
    config.flag("tied_embeddings", "tie_word_embeddings", False)
    config.imply(position="none", norm="rmsnorm", attention="mamba2", biases=False, pattern="M")
    _linear(
        config,
        key_heads="n_groups",
        value_heads="num_heads",
        key_dim="state_size",
        value_dim="head_dim",
        conv="conv_kernel",
        chunk="chunk_size",
    )


HYBRIDS: dict[str, Callable[[Config], None]] = {
    "jamba": jamba,
    "kimi_linear": kimi_linear,
    "mamba2": mamba2,
    "nemotron_h": nemotron_h,
    "qwen3_5_moe_text": gated_delta,
    "qwen3_5_text": gated_delta,
    "qwen3_next": gated_delta,
}
"""Architectures by `model_type`."""
