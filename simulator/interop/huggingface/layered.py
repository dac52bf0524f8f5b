"""Families whose layers differ: dense ones among mixtures, windows, heads of several sizes, latent attention.

Which layer is which stands under many keys (`first_k_dense_replace`, `moe_layer_freq`, `mlp_layer_types`,
`interleave_moe_layer_step`, `layer_types`, `hybrid_layer_pattern`); here each becomes a pattern of layers.
"""

from collections.abc import Callable, Sequence
from itertools import groupby

from simulator.interop.huggingface.config import Config
from simulator.interop.huggingface.usual_keys import further_tokens, llama, sizes

Layer = dict[str, str | int | bool]
"""What a layer has that the model does not say."""
STEP_WINDOW_HEADS = 96
"""Query heads of layers with a window in Step 3.5 and 3.7 Flash, whose exported configs leave out
`attention_other_setting` (amd/Step-3.5-Flash-MXFP4 has it)."""


def pattern(layers: Sequence[Layer]) -> list[Layer]:
    """Layers as the shortest list that is repeated, equal neighbours together; empty where all are alike."""
    if not any(layers):
        return []
    count = len(layers)
    period = next(n for n in range(1, count + 1) if count % n == 0 and all(map(_same, layers, layers[n:])))
    groups = [(layer, len(list(alike))) for layer, alike in groupby(layers[:period])]
    return [{"repeat": number, **layer} if number > 1 else layer for layer, number in groups]


def _same(one: Layer, other: Layer) -> bool:
    return one == other


def _listed(config: Config, layers: Sequence[Layer], *keys: str) -> None:
    found = pattern(layers)
    if found:
        config.take("pattern", keys, found)


def dense_layers(config: Config, count: int) -> list[bool]:
    """Whether each layer has a dense MLP in a model of mixtures."""
    entries = config.entries
    types, often = entries.get("mlp_layer_types"), entries.get("moe_layer_freq")
    first = entries.get("first_k_dense_replace") or 0
    for key, listed, sparse in (("mlp_layer_types", types, "sparse"), ("moe_layer_freq", often, 1)):
        if isinstance(listed, list):
            if len(listed) != count:
                config.wrong(key, f"{len(listed)} entries for {count} layers")
            return [kind != sparse for kind in listed][:count] + [False] * (count - len(listed))
    step = config.whole("interleave_moe_layer_step", default=1) or 1
    freq = often if isinstance(often, int) and often > 0 else 1
    return [i < first or i % freq != 0 or (i + 1) % step != 0 for i in range(count)]


def _depth(config: Config) -> int:
    """Layers of the model; none where the config does not say, which is a problem already."""
    found = config.fields.get("layers")
    return found if isinstance(found, int) else 0


def _mixture(config: Config, experts: int | None = None, top_k: int | None = None) -> None:
    """Experts, those of a token, their width, and shared ones."""
    config.number("experts", "n_routed_experts", "num_local_experts", "num_experts", default=experts)
    config.number("top_k", "num_experts_per_tok", "num_experts_per_token", "top_k_experts", default=top_k)
    config.number("expert_ffn", "moe_intermediate_size")
    config.optional("shared_experts", "n_shared_experts", "num_shared_experts")
    if config.entries.get("n_group") not in (None, 1):
        config.number("expert_groups", "n_group")
        config.number("expert_group_limit", "topk_group", default=1)
    config.optional("shared_ffn", "share_expert_dim", "moe_shared_expert_intermediate_size")


def _dense(layers: Sequence[bool]) -> list[Layer]:
    return [{"mlp": "dense"} if dense else {} for dense in layers]


def latent(config: Config) -> None:
    """DeepSeek V2 and V3, Kimi K2, GLM-5: latent attention, dense layers first; an indexer where V3.2 and GLM-5 have
    one."""
    sizes(config, kv_heads=False)
    config.number("ffn", "intermediate_size")
    config.flag("tied_embeddings", "tie_word_embeddings", False)
    config.imply(gated_ffn=True, position="rotary", norm="rmsnorm", attention="mla", biases=False)
    config.flag("attention_biases", "attention_bias", False)
    config.optional("q_lora_rank", "q_lora_rank")
    for key in ("kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"):
        config.number(key, key)
    _mixture(config)
    config.optional("index_heads", "index_n_heads")
    config.optional("index_head_dim", "index_head_dim")
    config.optional("index_top_k", "index_topk")
    kinds = config.entries.get("indexer_types")
    if isinstance(kinds, list) and "shared" in kinds:
        config.take("index_layers", ("indexer_types",), kinds.count("full"))
    layers = _dense(dense_layers(config, _depth(config)))
    _listed(config, layers, "mlp_layer_types", "first_k_dense_replace")
    further_tokens(config, "num_nextn_predict_layers")


def glm4_moe(config: Config) -> None:
    """GLM-4.5: grouped attention with biases, dense layers first."""
    llama(config)
    config.left_out = ["rotary positions on a part of each head only"]
    further_tokens(config, "num_nextn_predict_layers")
    config.imply(biases=False)
    if config.entries.get("use_qk_norm"):
        config.imply(head_norms=True)
    config.flag("attention_biases", "attention_bias", False)
    _mixture(config)
    _listed(config, _dense(dense_layers(config, _depth(config))), "first_k_dense_replace")


def llama4(config: Config) -> None:
    """Llama 4: a routed expert and a shared one of the same width, in every layer or every second; chunked windows in
    three layers of four."""
    llama(config)
    config.number("head_dim", "head_dim", default=128)
    config.number("experts", "num_local_experts", default=16)
    config.number("top_k", "num_experts_per_tok", default=1)
    config.number("expert_ffn", "intermediate_size")
    config.optional("ffn", "intermediate_size_mlp")
    config.imply(shared_experts=1)
    layers = _dense(dense_layers(config, _depth(config)))
    if config.entries.get("attention_chunk_size"):
        chunk = config.whole("attention_chunk_size") or 1
        config.take("chunked_window", ("attention_chunk_size",), True)
        layers = [layer | ({"window": chunk} if (i + 1) % 4 else {}) for i, layer in enumerate(layers)]
    _listed(config, layers, "attention_chunk_size", "interleave_moe_layer_step")


def mimo_v2(config: Config) -> None:
    """MiMo V2 Flash: windows with key heads of their own number; values narrower than keys; one dense layer."""
    llama(config)
    config.number("v_head_dim", "v_head_dim")
    _mixture(config)
    window, kv_heads = config.whole("sliding_window"), config.whole("swa_num_key_value_heads")
    for key, own in (
        ("swa_num_attention_heads", "heads"),
        ("swa_head_dim", "head_dim"),
        ("swa_v_head_dim", "v_head_dim"),
    ):
        if config.entries.get(key) not in (None, config.fields.get(own)):
            config.wrong(key, f"{config.entries[key]} is not that of full layers: not modelled yet")
    kinds = config.entries.get("hybrid_layer_pattern")
    windowed = [kind == 1 for kind in kinds] if isinstance(kinds, list) else []
    if len(windowed) != _depth(config):
        config.wrong("hybrid_layer_pattern", f"{len(windowed)} entries for {_depth(config)} layers")
    layers = _dense(dense_layers(config, _depth(config)))
    own_kv: Layer = {"window": window or 1, "kv_heads": kv_heads or 1}
    layers = [layer | (own_kv if seen else {}) for layer, seen in zip(layers, windowed, strict=False)]
    _listed(config, layers, "hybrid_layer_pattern")
    config.left_out += ["attention sinks of layers with a window", "rotary positions on a part of each head only"]


def _windowed(config: Config) -> list[bool]:
    """Whether each layer has a sliding window, by `layer_types`."""
    kinds = config.entries.get("layer_types")
    found = [kind == "sliding_attention" for kind in kinds] if isinstance(kinds, list) else []
    if len(found) != _depth(config):
        config.wrong("layer_types", f"{len(found)} entries for {_depth(config)} layers")
    return found


def gemma4(config: Config) -> None:
    """Gemma 4: windows, and full layers with fewer and larger heads whose values are their keys; a dense MLP beside the
    experts where there are some."""
    llama(config)
    config.flag("tied_embeddings", "tie_word_embeddings", True)
    if config.entries.get("enable_moe_block") is True:
        _mixture(config)
        config.take("shared_ffn", ("intermediate_size",), config.whole("intermediate_size"))
    window = config.whole("sliding_window") or 1
    full: Layer = {}
    for field, key in (("kv_heads", "num_global_key_value_heads"), ("head_dim", "global_head_dim")):
        if config.entries.get(key) is not None:
            full[field] = config.whole(key) or 1
    if config.switch("attention_k_eq_v", False):
        full["keys_as_values"] = True
    layers: list[Layer] = [{"window": window} if seen else full for seen in _windowed(config)]
    _listed(config, layers, "layer_types")
    config.left_out += ["norms after attention and MLP", "the tower for sound"]


def step3(config: Config) -> None:
    """Step 3.5 and 3.7 Flash: windows with more query heads, three dense layers first; modules for multi-token
    prediction are dense and have a window."""
    llama(config)
    _mixture(config)
    window, other = config.whole("sliding_window") or 1, config.entries.get("attention_other_setting")
    heads = other.get("num_attention_heads") if isinstance(other, dict) else None
    if not isinstance(heads, int):
        heads = STEP_WINDOW_HEADS
        config.left_out.append(f"(taken: {heads} query heads in layers with a window, of which the file says nothing)")
    dense, windowed = _dense(dense_layers(config, _depth(config))), _windowed(config)
    layers = [
        layer | ({"window": window, "heads": heads} if seen else {})
        for layer, seen in zip(dense, windowed, strict=False)
    ]
    _listed(config, layers, "layer_types")
    further_tokens(config, "num_nextn_predict_layers")
    if "mtp_layers" in config.fields:
        config.take("mtp", ("num_nextn_predict_layers",), {"mlp": "dense", "window": window, "heads": heads})


def nemotron_nas(config: Config) -> None:
    """Nemotron Super and Ultra of Llama's architecture, pruned block by block: layers without attention, MLPs of their
    own width (2/3 of `ffn_mult` hidden, in multiples of 256, as their modelling code has it)."""
    blocks = config.entries.get("block_configs")
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        config.wrong("block_configs", "no list of blocks")
        blocks = []
    hidden, heads = config.whole("hidden_size") or 1, config.whole("num_attention_heads") or 1
    layers = [_pruned(config, block, hidden, heads) for block in blocks]
    kv_heads = {one for layer in layers if isinstance(one := layer.pop("kv_heads", None), int)}
    if len(kv_heads) > 1:
        config.wrong("block_configs", "groups of heads of several sizes: not modelled yet")
    widths = [one for layer in layers if isinstance(one := layer.get("ffn"), int)]
    usual = max(set(widths), key=widths.count, default=4 * hidden)
    config.entries = {**config.entries, "intermediate_size": usual, "num_key_value_heads": min(kv_heads, default=heads)}
    llama(config)
    if len(layers) != _depth(config):
        config.wrong("block_configs", f"{len(layers)} entries for {_depth(config)} layers")
    kept = [{key: value for key, value in layer.items() if (key, value) != ("ffn", usual)} for layer in layers]
    _listed(config, kept, "block_configs")


def _pruned(config: Config, block: dict[str, object], hidden: int, heads: int) -> Layer:
    """A layer of `block_configs`, its key heads and its width among what it says."""
    attention, mlp = (part if isinstance(part := block.get(key), dict) else {} for key in ("attention", "ffn"))
    if any(part.get("replace_with_linear") or part.get("sparsify") for part in (attention, mlp)):
        config.wrong("block_configs", "blocks that are replaced by one product, or sparse: not modelled yet")
    layer: Layer = {"attention": "none"} if attention.get("no_op") else {}
    group, wide = attention.get("n_heads_in_group"), mlp.get("ffn_mult")
    if isinstance(group, int) and group > 0:
        layer["kv_heads"] = heads // group
    if mlp.get("no_op"):
        layer["mlp"] = "none"
    elif isinstance(wide, int | float) and wide > 0:
        layer["ffn"] = -(-int(2 * wide * hidden / 3) // 256) * 256
    return layer


LAYERED: dict[str, Callable[[Config], None]] = {
    "deepseek_v2": latent,
    "deepseek_v3": latent,
    "deepseek_v32": latent,
    "gemma4_text": gemma4,
    "glm4_moe": glm4_moe,
    "glm_moe_dsa": latent,
    "kimi_k2": latent,
    "llama4_text": llama4,
    "mimo_v2_flash": mimo_v2,
    "nemotron-nas": nemotron_nas,
    "step3p5": step3,
    "step3p7": step3,
}
"""Architectures by `model_type`."""
