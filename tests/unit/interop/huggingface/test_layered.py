"""Configs whose layers differ: the pattern of each family, and all configs of a folder of them where there is one."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import simulator.run.foreign  # noqa: F401  (makes the reader known to the loader)
from simulator.errors import InputError
from simulator.interop.huggingface.layered import LAYERED, pattern
from simulator.interop.huggingface.quantized import quantization
from simulator.interop.huggingface.translate import translate
from simulator.interop.machine import Machine
from simulator.model.parameters import active_parameters, total_parameters
from simulator.run.imports import import_file
from simulator.specs import load_file, load_scenario
from simulator.specs.model import Model

FOLDER = Path(__file__).parents[5] / "shared" / "data" / "model_configs"
LATENT = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "vocab_size": 129280,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "moe_layer_freq": 1,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "tie_word_embeddings": False,
    "num_nextn_predict_layers": 1,
    "n_group": 8,
    "topk_group": 4,
}
LITE = {
    **LATENT,
    "model_type": "deepseek_v2",
    "num_hidden_layers": 27,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "vocab_size": 102400,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 1,
    "q_lora_rank": None,
}
GLM = {
    **LATENT,
    "model_type": "glm_moe_dsa",
    "num_hidden_layers": 78,
    "hidden_size": 6144,
    "num_attention_heads": 64,
    "vocab_size": 154880,
    "intermediate_size": 12288,
    "q_lora_rank": 2048,
    "qk_nope_head_dim": 192,
    "v_head_dim": 256,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 2048,
    "first_k_dense_replace": None,
    "mlp_layer_types": ["dense"] * 3 + ["sparse"] * 75,
    "indexer_types": (["full"] + ["shared"] * 3) * 19 + ["full"] * 2,
}
AIR = {
    "model_type": "glm4_moe",
    "num_hidden_layers": 46,
    "hidden_size": 4096,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151552,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 128,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 1,
    "attention_bias": True,
}
MAVERICK = {
    "model_type": "llama4_text",
    "num_hidden_layers": 48,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "vocab_size": 202048,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_local_experts": 128,
    "num_experts_per_tok": 1,
    "interleave_moe_layer_step": 2,
    "attention_chunk_size": 8192,
}
MIMO = {
    "model_type": "mimo_v2_flash",
    "num_hidden_layers": 48,
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 192,
    "v_head_dim": 128,
    "vocab_size": 152576,
    "intermediate_size": 16384,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": None,
    "num_experts_per_tok": 8,
    "sliding_window": 128,
    "swa_num_key_value_heads": 8,
    "swa_head_dim": 192,
    "hybrid_layer_pattern": [0, 1, 1, 1, 1] + [0, 1, 1, 1, 1, 1] * 7 + [0],
    "moe_layer_freq": [0] + [1] * 47,
}
GEMMA = {
    "model_type": "gemma4_text",
    "num_hidden_layers": 30,
    "hidden_size": 2816,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "num_global_key_value_heads": 2,
    "global_head_dim": 512,
    "attention_k_eq_v": True,
    "vocab_size": 262144,
    "intermediate_size": 2112,
    "moe_intermediate_size": 704,
    "enable_moe_block": True,
    "num_experts": 128,
    "top_k_experts": 8,
    "sliding_window": 1024,
    "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 5,
}
STEP = {
    "model_type": "step3p7",
    "num_hidden_layers": 45,
    "hidden_size": 4096,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 128896,
    "intermediate_size": 11264,
    "num_experts": 288,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 1280,
    "share_expert_dim": 1280,
    "first_k_dense_replace": 3,
    "sliding_window": 512,
    "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 11 + ["full_attention"],
}
PRUNED = {
    "model_type": "nemotron-nas",
    "num_hidden_layers": 4,
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_key_value_heads": None,
    "vocab_size": 128256,
    "intermediate_size": None,
    "block_configs": [
        {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 5.25, "no_op": False}},
        {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 5.25, "no_op": False}},
        {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": 2.625, "no_op": False}},
        {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"no_op": True}},
    ],
}
PUBLISHED: dict[str, tuple[dict[str, Any], float, float]] = {
    "DeepSeek-V3": (LATENT, 671.0, 36.6),
    "DeepSeek-V3.2": ({**LATENT, "model_type": "deepseek_v32"}, 671.0, 36.6),
    "Kimi-K2": (
        {
            **LATENT,
            "model_type": "kimi_k2",
            "num_attention_heads": 64,
            "num_key_value_heads": 64,
            "n_routed_experts": 384,
            "vocab_size": 163840,
            "first_k_dense_replace": 1,
        },
        1026.4,
        31.7,
    ),
    "DeepSeek-V2-Lite": (LITE, 15.7, 2.5),
    "GLM-4.5-Air": (AIR, 106.9, 12.8),
    "Llama-4-Maverick": (MAVERICK, 400.7, 16.2),
    "MiMo-V2-Flash": (MIMO, 308.8, 14.8),
    "Gemma-4-26B-A4B": (GEMMA, 25.2, 3.8),
    "Step-3.7-Flash": (STEP, 196.9, 11.4),
    "Step-3.5-Flash": (
        {**STEP, "model_type": "step3p5", "attention_other_setting": {"num_attention_heads": 96}},
        196.9,
        11.4,
    ),
}
"""Config, and total and active parameters in 10^9 as counted from cards and papers."""


def shape(config: dict[str, Any]) -> Model:
    fields, _ = translate(config)
    return Model.model_validate(fields)


def test_every_family_is_tested() -> None:
    assert {config["model_type"] for config, _, _ in PUBLISHED.values()} | {"glm_moe_dsa", "nemotron-nas"} == set(
        LAYERED
    )


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_are_published(name: str) -> None:
    config, total, active = PUBLISHED[name]
    model = shape(config)
    assert total_parameters(model) / 1e9 == pytest.approx(total, abs=0.06)
    assert active_parameters(model) / 1e9 == pytest.approx(active, abs=0.06)


def test_kinds_of_layers_are_counted() -> None:
    kinds = {name: Counter(shape(config).kinds) for name, (config, _, _) in PUBLISHED.items()}
    assert sorted(kinds["DeepSeek-V3"].values()) == [3, 58]
    assert {(k.mlp, k.window): n for k, n in kinds["Llama-4-Maverick"].items()} == {
        ("dense", 8192): 24,
        ("moe", 8192): 12,
        ("moe", None): 12,
    }
    assert {(k.mlp, k.window, k.sizes): n for k, n in kinds["MiMo-V2-Flash"].items()} == {
        ("dense", None, ()): 1,
        ("moe", 128, (("kv_heads", 8),)): 39,
        ("moe", None, ()): 8,
    }
    assert {(k.mlp, k.window, k.sizes): n for k, n in kinds["Step-3.7-Flash"].items()} == {
        ("dense", None, ()): 1,
        ("dense", 512, (("heads", 96),)): 2,
        ("moe", 512, (("heads", 96),)): 31,
        ("moe", None, ()): 11,
    }


def test_groups_of_experts_are_read() -> None:
    """DeepSeek-V3 takes the experts of a token from four of eight groups; GLM-5's one group is none."""
    assert (shape(LATENT).expert_groups, shape(LATENT).expert_group_limit) == (8, 4)
    single = shape({**LATENT, "n_group": 1, "topk_group": 1})
    assert single.expert_groups == Model.model_fields["expert_groups"].default


def test_layers_that_were_pruned_have_what_is_left_of_them() -> None:
    """5.25 of Llama's 8,192: 28,672 inside, and 14,336 of half that; two layers lost their attention or their MLP."""
    model = shape(PRUNED)
    assert (model.kv_heads, model.ffn) == (8, 28672)
    assert [(kind.attention, kind.mlp, kind.sizes) for kind in model.kinds] == [
        ("grouped", "dense", ()),
        ("grouped", "dense", ()),
        ("none", "dense", (("ffn", 14336),)),
        ("grouped", "none", ()),
    ]
    attention, wide = 8192 * 128 * (64 + 8 + 8 + 64), 3 * 8192 * 14336
    blocks = 3 * attention + 5 * wide + 6 * 8192
    assert total_parameters(model) == blocks + 2 * 128256 * 8192 + 8192


def test_indexers_that_are_shared_are_counted() -> None:
    model = shape(GLM)
    assert (model.index_heads, model.index_top_k, model.index_layers) == (32, 2048, 21)
    assert sum(model.of(kind).index_heads is not None for kind in model.kinds) == 21


def test_a_pattern_is_as_short_as_it_can_be() -> None:
    assert pattern([{}, {}]) == []
    assert pattern([{"mlp": "dense"}, {}] * 3) == [{"mlp": "dense"}, {}]
    assert pattern([{"mlp": "dense"}] * 3 + [{}] * 4) == [{"repeat": 3, "mlp": "dense"}, {"repeat": 4}]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({**MIMO, "hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern: 2 entries for 48 layers"),
        ({**MIMO, "moe_layer_freq": [0]}, "moe_layer_freq: 1 entries for 48 layers"),
        ({**MIMO, "swa_head_dim": 64}, "swa_head_dim: 64 is not that of full layers"),
        ({**GEMMA, "layer_types": None}, "layer_types: 0 entries for 30 layers"),
        ({**LATENT, "kv_lora_rank": None}, "kv_lora_rank: `kv_lora_rank` is missing"),
        ({**PRUNED, "block_configs": 3}, "block_configs: no list of blocks"),
        ({**PRUNED, "num_hidden_layers": 9}, "block_configs: 4 entries for 9 layers"),
        (
            {**PRUNED, "num_hidden_layers": 1, "block_configs": [{"attention": {"replace_with_linear": True}}]},
            "replaced by one product",
        ),
    ],
)
def test_lists_of_another_length_and_sizes_that_are_missing_are_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        translate(config)
    assert words in str(caught.value)


def test_a_config_loads_as_a_file_and_is_imported_as_a_scenario(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(MAVERICK))
    assert load_file(Model, tmp_path / "config.json").spec == shape(MAVERICK)
    (tmp_path / "v3.json").write_text(json.dumps(LATENT))
    imported = import_file(str(tmp_path / "v3.json"), Machine("dgx-h200", 2))
    (tmp_path / "served.yaml").write_text(imported)
    assert load_scenario(tmp_path / "served.yaml").scenario.model.kinds == shape(LATENT).kinds


@pytest.mark.skipif(not FOLDER.is_dir(), reason="a folder of configs that is not shipped")
def test_a_folder_of_configs_loads_or_says_what_of_it_is_not_modelled() -> None:
    refused = Counter[str]()
    for file in sorted(FOLDER.glob("*.json")):
        try:
            assert total_parameters(load_file(Model, file).spec) > 0
        except InputError as error:
            assert all("cannot be simulated: " in str(problem) for problem in error.problems), file
            refused[json.loads(file.read_text())["model_type"]] += 1
    assert sum(refused.values()) <= 12


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        ({"ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"]}, ", not attention and shared experts"),
        ({"modules_to_not_convert": ["model.layers.*.self_attn", "model.embed_tokens"]}, ", not attention"),
        ({"ignore": ["model.layers.0.self_attn*"]}, ", not attention"),
        ({"modules_to_not_convert": ["model.layers.0.self_attn.indexers_proj", "lm_head"]}, ""),
        ({"ignore": ["model.layers.3.mlp.shared_expert_gate"]}, ""),
    ],
)
def test_parts_that_stay_in_16_bits_are_named(kept: dict[str, Any], words: str) -> None:
    config = {"quantization_config": {"quant_method": "mxfp4", **kept}}
    assert quantization(config) == (f"mxfp4{words}", "fp4")
