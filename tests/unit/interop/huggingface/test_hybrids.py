"""Configs of models with layers that carry a state: their patterns and sizes, as published and as shipped."""

from typing import Any

import pytest

from simulator.errors import InputError
from simulator.interop.huggingface.hybrids import HYBRIDS
from simulator.interop.huggingface.translate import translate
from simulator.model.parameters import active_parameters, total_parameters
from simulator.specs import load_spec
from simulator.specs.model import LayerKind, Model

SIZES = {"hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 151936}
NEXT = {
    **SIZES,
    "model_type": "qwen3_next",
    "num_hidden_layers": 48,
    "intermediate_size": 5120,
    "head_dim": 256,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mlp_only_layers": [],
}
SMALL = {
    **NEXT,
    "model_type": "qwen3_5_moe_text",
    "num_hidden_layers": 40,
    "vocab_size": 248320,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "full_attention_interval": 4,
    "intermediate_size": None,
}
DENSE = {
    "hidden_size": 5120,
    "num_attention_heads": 24,
    "num_key_value_heads": 4,
    "vocab_size": 248320,
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 64,
    "intermediate_size": 17408,
    "head_dim": 256,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 16,
    "attn_output_gate": True,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "mtp_num_hidden_layers": 1,
}
NANO = {
    "model_type": "nemotron_h",
    "num_hidden_layers": 52,
    "hidden_size": 2688,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "vocab_size": 131072,
    "intermediate_size": 1856,
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "ssm_state_size": 128,
    "n_groups": 8,
    "conv_kernel": 4,
    "chunk_size": 128,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "moe_intermediate_size": 1856,
    "n_shared_experts": 1,
    "moe_shared_expert_intermediate_size": 3712,
}
KIMI = {
    "model_type": "kimi_linear",
    "num_hidden_layers": 27,
    "hidden_size": 2304,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "vocab_size": 163840,
    "intermediate_size": 9216,
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "mla_use_nope": True,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 1024,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
    "linear_attn_config": {
        "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
        "head_dim": 128,
        "num_heads": 32,
        "short_conv_kernel_size": 4,
    },
}
JAMBA = {
    "model_type": "jamba",
    "num_hidden_layers": 72,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 65536,
    "intermediate_size": 24576,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": 512,
}
MAMBA = {
    "model_type": "mamba2",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "num_heads": 64,
    "head_dim": 64,
    "state_size": 128,
    "n_groups": 1,
    "conv_kernel": 4,
    "chunk_size": 256,
    "vocab_size": 50288,
    "tie_word_embeddings": True,
}
SHIPPED = [
    (NEXT, "qwen3-next-80b-a3b"),
    (SMALL, "qwen3.5-35b-a3b"),
    (DENSE, "qwen3.5-27b"),
    (NANO, "nemotron-3-nano-30b-a3b"),
    (KIMI, "kimi-linear-48b-a3b"),
    (JAMBA, "jamba-1.5-large"),
    (MAMBA, "mamba-2-1.3b"),
]


def shape(config: dict[str, Any]) -> Model:
    return Model.model_validate(translate(config).fields)


@pytest.mark.parametrize(("config", "name"), SHIPPED)
def test_a_config_has_the_layers_and_parameters_of_the_shipped_model(config: dict[str, Any], name: str) -> None:
    found, shipped = shape(config), load_spec(Model, f"models/{name}")
    assert [kind[:2] for kind in found.kinds] == [kind[:2] for kind in shipped.kinds]
    assert total_parameters(found) == total_parameters(shipped)
    assert active_parameters(found) == active_parameters(shipped)
    assert found.linear is not None and shipped.linear is not None
    assert found.linear.state == shipped.linear.state


def test_layers_of_one_block_may_be_named_in_words() -> None:
    words = {"M": "mamba", "E": "moe", "*": "attention", "-": "mlp"}
    letters = str(NANO["hybrid_override_pattern"])
    named = {**NANO, "layers_block_type": [words[letter] for letter in letters]}
    del named["hybrid_override_pattern"], named["num_hidden_layers"]
    assert shape(named).kinds == shape(NANO).kinds


def test_modules_for_multi_token_prediction_come_with_their_layer() -> None:
    assert shape(DENSE).predicting == (LayerKind("grouped", "dense", predicts=True),)
    super_ = {**NANO, "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E"}
    ultra = {**NANO, "num_nextn_predict_layers": 1, "mtp_layers_block_type": ["attention", "moe"]}
    assert shape(super_).predicting == shape(ultra).predicting == (LayerKind("grouped", "moe", predicts=True),)
    assert shape(NANO).predicting == ()
    assert "prediction" not in str(translate(DENSE).fields["source"])


def test_every_family_is_tested() -> None:
    assert {config["model_type"] for config, _ in SHIPPED} == set(HYBRIDS)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**NANO, "hybrid_override_pattern": "MX"}, "no pattern of M, E, * and -"),
        ({**NANO, "num_hidden_layers": 50}, "is not the 52 letters"),
        ({**NANO, "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "M"}, "only modules of attention and"),
        ({**KIMI, "linear_attn_config": {"num_heads": 32}}, "no positive whole number `head_dim`"),
        ({**NEXT, "mlp_only_layers": [0]}, "only models with experts in every layer"),
        ({**DENSE, "linear_key_head_dim": None}, "`linear_key_head_dim` is missing"),
    ],
)
def test_what_does_not_fit_is_refused_at_its_key(config: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        translate(config)
    assert words in str(caught.value)
