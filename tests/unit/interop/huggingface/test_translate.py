"""Hugging Face configs by family: the shape against published parameter counts, and everything that can be wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import simulator.run.foreign  # noqa: F401  (makes the reader known to the loader)
from simulator.errors import InputError
from simulator.interop.huggingface.encoded import ENCODED
from simulator.interop.huggingface.hybrids import HYBRIDS
from simulator.interop.huggingface.layered import LAYERED
from simulator.interop.huggingface.translate import FAMILIES, REFUSED, translate
from simulator.interop.machine import Machine
from simulator.model.parameters import total_parameters
from simulator.run.dispatch import simulate
from simulator.run.imports import import_file
from simulator.specs import load_file, load_scenario, load_spec
from simulator.specs.model import Model
from tests.effort import examples
from tests.parameters import parameters

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
    "rope_scaling": None,
    "torch_dtype": "bfloat16",
}

CONFIGS: dict[str, tuple[dict[str, Any], float]] = {
    "Llama-3-8B": (LLAMA, 8.030e9),
    "Mistral-7B": ({**LLAMA, "model_type": "mistral", "vocab_size": 32000, "sliding_window": 4096}, 7.242e9),
    "Mixtral-8x7B": (
        {**LLAMA, "model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2},
        46.70e9,
    ),
    "Qwen2-7B": (
        {
            "model_type": "qwen2",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "num_attention_heads": 28,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "vocab_size": 152064,
            "sliding_window": 131072,
            "use_sliding_window": False,
            "tie_word_embeddings": False,
        },
        7.616e9,
    ),
    "Qwen2-57B-A14B": (
        {
            "model_type": "qwen2_moe",
            "hidden_size": 3584,
            "intermediate_size": 18944,
            "moe_intermediate_size": 2560,
            "shared_expert_intermediate_size": 20480,
            "num_attention_heads": 28,
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "num_experts": 64,
            "num_experts_per_tok": 8,
            "vocab_size": 151936,
            "decoder_sparse_step": 1,
            "tie_word_embeddings": False,
        },
        57.41e9,
    ),
    "Qwen3-32B": (
        {
            "model_type": "qwen3",
            "hidden_size": 5120,
            "intermediate_size": 25600,
            "num_attention_heads": 64,
            "num_hidden_layers": 64,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "vocab_size": 151936,
            "tie_word_embeddings": False,
        },
        32.76e9,
    ),
    "Qwen3-30B-A3B": (
        {
            "model_type": "qwen3_moe",
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_attention_heads": 32,
            "num_hidden_layers": 48,
            "num_key_value_heads": 4,
            "head_dim": 128,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "vocab_size": 151936,
            "mlp_only_layers": [],
            "tie_word_embeddings": False,
        },
        30.53e9,
    ),
    "OPT-13B": (
        {
            "model_type": "opt",
            "hidden_size": 5120,
            "ffn_dim": 20480,
            "num_attention_heads": 40,
            "num_hidden_layers": 40,
            "vocab_size": 50272,
            "max_position_embeddings": 2048,
            "word_embed_proj_dim": 5120,
        },
        12.85e9,
    ),
    "GPT-2 XL": (
        {
            "model_type": "gpt2",
            "n_embd": 1600,
            "n_head": 25,
            "n_layer": 48,
            "n_positions": 1024,
            "n_inner": None,
            "vocab_size": 50257,
        },
        1.5576e9,
    ),
    "GPT-J-6B": (
        {
            "model_type": "gptj",
            "n_embd": 4096,
            "n_head": 16,
            "n_layer": 28,
            "n_positions": 2048,
            "vocab_size": 50400,
            "tie_word_embeddings": False,
        },
        6.05e9,
    ),
    "GPT-NeoX-20B": (
        {
            "model_type": "gpt_neox",
            "hidden_size": 6144,
            "intermediate_size": 24576,
            "num_attention_heads": 64,
            "num_hidden_layers": 44,
            "vocab_size": 50432,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
        },
        20.55e9,
    ),
    "Falcon-7B": (
        {
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_attention_heads": 71,
            "num_hidden_layers": 32,
            "num_kv_heads": 71,
            "multi_query": True,
            "new_decoder_architecture": False,
            "alibi": False,
            "bias": False,
            "parallel_attn": True,
            "vocab_size": 65024,
        },
        6.92e9,
    ),
    "Falcon-40B": (
        {
            "model_type": "falcon",
            "hidden_size": 8192,
            "num_attention_heads": 128,
            "num_hidden_layers": 60,
            "num_kv_heads": 8,
            "multi_query": True,
            "new_decoder_architecture": True,
            "vocab_size": 65024,
        },
        41.3e9,
    ),
    "Falcon-40B of 2023": (
        {
            "model_type": "RefinedWeb",
            "hidden_size": 8192,
            "n_head": 128,
            "n_layer": 60,
            "n_head_kv": 8,
            "vocab_size": 65024,
        },
        41.3e9,
    ),
    "Falcon-180B": (
        {
            "model_type": "falcon",
            "hidden_size": 14848,
            "num_attention_heads": 232,
            "num_hidden_layers": 80,
            "num_kv_heads": 8,
            "multi_query": True,
            "new_decoder_architecture": True,
            "vocab_size": 65024,
        },
        179.5e9,
    ),
    "BLOOM-7B1": (
        {"model_type": "bloom", "n_embed": 4096, "num_attention_heads": 32, "n_layer": 30, "vocab_size": 250880},
        7.069e9,
    ),
    "Phi-3-mini": (
        {
            "model_type": "phi3",
            "hidden_size": 3072,
            "intermediate_size": 8192,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": 32,
            "vocab_size": 32064,
            "sliding_window": 2047,
            "tie_word_embeddings": False,
        },
        3.821e9,
    ),
    "Phi-2": (
        {
            "model_type": "phi",
            "hidden_size": 2560,
            "intermediate_size": 10240,
            "num_attention_heads": 32,
            "num_hidden_layers": 32,
            "num_key_value_heads": None,
            "vocab_size": 51200,
            "tie_word_embeddings": False,
        },
        2.78e9,
    ),
    "Gemma-7B": (
        {
            "model_type": "gemma",
            "hidden_size": 3072,
            "intermediate_size": 24576,
            "num_attention_heads": 16,
            "num_hidden_layers": 28,
            "num_key_value_heads": 16,
            "head_dim": 256,
            "vocab_size": 256000,
        },
        8.538e9,
    ),
    "Gemma-2-9B": (
        {
            "model_type": "gemma2",
            "hidden_size": 3584,
            "intermediate_size": 14336,
            "num_attention_heads": 16,
            "num_hidden_layers": 42,
            "num_key_value_heads": 8,
            "head_dim": 256,
            "vocab_size": 256000,
            "sliding_window": 4096,
        },
        9.24e9,
    ),
    "Gemma-3-4B": (
        {
            "model_type": "gemma3",
            "vision_config": {"hidden_size": 1152},
            "text_config": {
                "model_type": "gemma3_text",
                "hidden_size": 2560,
                "intermediate_size": 10240,
                "num_hidden_layers": 34,
                "sliding_window": 1024,
            },
        },
        3.88e9,
    ),
    "StarCoder2-7B": (
        {
            "model_type": "starcoder2",
            "hidden_size": 4608,
            "intermediate_size": 18432,
            "num_attention_heads": 36,
            "num_hidden_layers": 32,
            "num_key_value_heads": 4,
            "vocab_size": 49152,
            "use_bias": True,
        },
        7.17e9,
    ),
    "gpt-oss-20b": (
        {
            "model_type": "gpt_oss",
            "hidden_size": 2880,
            "intermediate_size": 2880,
            "num_attention_heads": 64,
            "num_hidden_layers": 24,
            "num_key_value_heads": 8,
            "head_dim": 64,
            "num_local_experts": 32,
            "num_experts_per_tok": 4,
            "vocab_size": 201088,
            "sliding_window": 128,
            "tie_word_embeddings": False,
        },
        20.91e9,
    ),
    "MiniMax-M2": (
        {
            "model_type": "minimax_m2",
            "hidden_size": 3072,
            "intermediate_size": 1536,
            "num_attention_heads": 48,
            "num_hidden_layers": 62,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "num_local_experts": 256,
            "num_experts_per_tok": 8,
            "vocab_size": 200064,
            "shared_intermediate_size": 0,
            "use_qk_norm": True,
            "qk_norm_type": "per_layer",
            "attn_type_list": [1] * 62,
            "num_mtp_modules": 3,
        },
        229e9,
    ),
    "MiMo-7B": (
        {
            **LLAMA,
            "model_type": "mimo",
            "intermediate_size": 11008,
            "num_hidden_layers": 36,
            "vocab_size": 151680,
            "attention_bias": True,
            "sliding_window": 32768,
            "use_sliding_window": False,
            "num_nextn_predict_layers": 1,
        },
        7.62e9,
    ),
    "Llama-4-Scout": (
        {
            "model_type": "llama4",
            "text_config": {
                "model_type": "llama4_text",
                "hidden_size": 5120,
                "intermediate_size": 8192,
                "num_attention_heads": 40,
                "num_hidden_layers": 48,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "num_local_experts": 16,
                "num_experts_per_tok": 1,
                "interleave_moe_layer_step": 1,
                "attention_chunk_size": 8192,
                "vocab_size": 202048,
            },
        },
        107.8e9,
    ),
    "Qwen3-VL-8B": (
        {
            "model_type": "qwen3_vl",
            "text_config": {
                "model_type": "qwen3_vl_text",
                "hidden_size": 4096,
                "intermediate_size": 12288,
                "num_attention_heads": 32,
                "num_hidden_layers": 36,
                "num_key_value_heads": 8,
                "head_dim": 128,
                "vocab_size": 151936,
            },
        },
        8.19e9,
    ),
    "Qwen3-VL-30B-A3B": (
        {
            "model_type": "qwen3_vl_moe",
            "text_config": {
                "model_type": "qwen3_vl_moe_text",
                "hidden_size": 2048,
                "intermediate_size": 6144,
                "moe_intermediate_size": 768,
                "num_attention_heads": 32,
                "num_hidden_layers": 48,
                "num_key_value_heads": 4,
                "head_dim": 128,
                "num_experts": 128,
                "num_experts_per_tok": 8,
                "vocab_size": 151936,
            },
        },
        30.53e9,
    ),
}
for _kind in (
    "qwen2_vl",
    "qwen2_5_vl",
):  # the language model alone, with its keys outside and in a section of their own
    _text, _published = CONFIGS["Qwen2-7B"]
    CONFIGS[_kind] = {**_text, "model_type": _kind}, _published
    CONFIGS[f"{_kind}_text"] = (
        {"model_type": _kind, "text_config": {**_text, "model_type": f"{_kind}_text"}},
        _published,
    )
"""Configs with the keys that matter, and the parameters that the authors count (language model alone)."""


def shape(config: dict[str, Any]) -> Model:
    return Model.model_validate(translate(config).fields)


def refusal(config: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        translate(config)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_has_the_parameters_that_its_authors_count(name: str) -> None:
    config, published = CONFIGS[name]
    assert parameters(shape(config)) == pytest.approx(published, rel=0.01)


def test_every_family_is_tested() -> None:
    kinds = {config.get("text_config", config)["model_type"] for config, _ in CONFIGS.values()}
    assert set(FAMILIES) - set(LAYERED) - set(HYBRIDS) - set(ENCODED) - kinds == {"RefinedWebModel"}


@pytest.mark.parametrize(
    ("changes", "shipped"),
    [
        ({}, "t5-base"),
        ({"d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128}, "t5-11b"),
        (
            {
                "d_model": 4096,
                "d_ff": 10240,
                "num_layers": 24,
                "num_heads": 64,
                "feed_forward_proj": "gated-gelu",
                "tie_word_embeddings": False,
            },
            "flan-t5-xxl",
        ),
    ],
)
def test_an_encoder_and_a_decoder_have_the_parameters_of_the_shipped_model(
    changes: dict[str, Any], shipped: str
) -> None:
    base = {"d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12, "vocab_size": 32128}
    found = shape({"model_type": "t5", **base, **changes})
    assert found.encoder_layers == found.layers
    assert total_parameters(found) == total_parameters(load_spec(Model, f"models/{shipped}"))
    fewer = shape({"model_type": "t5", **base, **changes, "num_decoder_layers": 4})
    assert (fewer.encoder_layers, fewer.layers) == (found.layers, 4)


@pytest.mark.parametrize(
    ("name", "shipped"),
    [
        ("Llama-3-8B", "llama-3-8b"),
        ("Mixtral-8x7B", "mixtral-8x7b"),
        ("Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("Falcon-40B", "falcon-40b"),
        ("GPT-J-6B", "gpt-j-6b"),
        ("Gemma-2-9B", "gemma-2-9b"),
    ],
)
def test_a_config_gives_the_shape_of_the_shipped_model(name: str, shipped: str) -> None:
    words = {"name", "source", "max_sequence", "published_parameters"}
    ours = load_file(Model, shipped).spec.model_dump(exclude=words)
    assert shape(CONFIGS[name][0]).model_dump(exclude=words) == ours


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Falcon-7B", {"kv_heads": 1, "position": "rotary", "biases": False}),
        ("Falcon-180B", {"kv_heads": 8, "head_dim": 64, "ffn": 4 * 14848}),
        ("Gemma-3-4B", {"heads": 8, "kv_heads": 4, "head_dim": 256, "tied_embeddings": True}),
        ("Qwen2-57B-A14B", {"experts": 64, "top_k": 8, "expert_ffn": 2560, "shared_experts": 8}),
        ("GPT-2 XL", {"ffn": 6400, "position": "learned", "max_sequence": 1024, "norm": "layernorm"}),
        ("BLOOM-7B1", {"position": "alibi", "hidden": 4096}),
    ],
)
def test_fields_of_a_family(name: str, expected: dict[str, object]) -> None:
    model = shape(CONFIGS[name][0])
    assert {field: getattr(model, field) for field in expected} == expected


def test_what_the_shape_cannot_express_is_said() -> None:
    assert "biases of query, key and value" in shape(CONFIGS["Qwen2-7B"][0]).source
    assert "biases of the attention" in shape({**LLAMA, "attention_bias": True}).source
    assert shape({**LLAMA, "attention_bias": True, "mlp_bias": True}).biases
    assert shape({**LLAMA, "_name_or_path": "meta-llama/Meta-Llama-3-8B"}).name == "meta-llama/Meta-Llama-3-8B"


@pytest.mark.parametrize(
    ("config", "window", "layers"),
    [
        (CONFIGS["Mistral-7B"][0], 4096, 32),
        (CONFIGS["Qwen2-7B"][0], None, None),
        ({**CONFIGS["Qwen2-7B"][0], "use_sliding_window": True, "max_window_layers": 21}, 131072, 7),
        (CONFIGS["Gemma-2-9B"][0], 4096, 21),
        (CONFIGS["gpt-oss-20b"][0], 128, 12),
        (CONFIGS["Llama-4-Scout"][0], 8192, 36),
        ({**LLAMA, "sliding_window": 512, "layer_types": ["sliding_attention", "full_attention"] * 16}, 512, 16),
        (CONFIGS["MiMo-7B"][0], None, None),
    ],
)
def test_windows_are_read(config: dict[str, Any], window: int | None, layers: int | None) -> None:
    model = shape(config)
    assert (model.window, model.windowed_layers) == (window, layers)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kv_lora_rank": 512}, "multi-head latent attention"),
        ({"layer_types": ["linear_attention"] * 24 + ["full_attention"] * 8}, "layers of `linear_attention`"),
        ({"attn_type_list": [0, 1]}, "layers of `0`"),
        ({"hybrid_override_pattern": "M-M*-"}, "state-space layers"),
        ({"index_topk": 2048}, "tokens that an index chooses"),
        ({"first_k_dense_replace": 3}, "dense layers before"),
        ({"model_type": "minimax_m3"}, "index chooses"),
        ({"model_type": "bamba"}, "not all attention"),
        ({"model_type": "minimax"}, "linear attention"),
        ({"model_type": "deepseek_v4"}, "compressed tokens"),
    ],
)
def test_layers_of_another_kind_are_refused_by_name(changes: dict[str, Any], words: str) -> None:
    (line,) = refusal({**LLAMA, **changes})
    assert words in line


PUBLISHED = Path(__file__).parents[5] / "shared" / "data" / "model_configs"
"""Configs as they are published, beside the project; there are none on most machines."""


@pytest.mark.parametrize("path", sorted(PUBLISHED.glob("*.json")), ids=lambda path: path.name)
def test_a_published_config_loads_or_says_what_is_not_modelled(path: Path) -> None:
    config = json.loads(path.read_text())
    try:
        assert shape(config).layers
    except InputError as error:
        (line,) = str(error).splitlines()
        assert "not known" not in line and "missing" not in line


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hidden_size": None}, "hidden_size: `hidden_size` is missing; or write `n_embd` or `n_embed`"),
        ({"num_hidden_layers": "32"}, "num_hidden_layers: `32` is not a whole number"),
        ({"num_hidden_layers": 32.5}, "num_hidden_layers: `32.5` is not a whole number"),
        ({"num_hidden_layers": True}, "num_hidden_layers: `true` is not a whole number"),
        ({"intermediate_size": [14336]}, "intermediate_size: a list is not a whole number"),
        ({"intermediate_size": {}}, "intermediate_size: a mapping is not a whole number"),
        ({"vocab_size": 0}, "vocab_size: `0` is not between 1 and 1,000,000,000"),
        ({"hidden_size": 10**30}, f"hidden_size: `{10**30}` is not between 1 and 1,000,000,000"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings: `no` is not true or false"),
        ({"model_type": 7}, "model_type: `model_type` is not text"),
        ({"model_type": "lama"}, "model_type: architecture `lama` is not known; did you mean `llama`?"),
        ({"model_type": "qwen3_moe"}, "moe_intermediate_size: `moe_intermediate_size` is missing"),
        (
            {"model_type": "bamba"},
            "model_type: `bamba` cannot be simulated: its layers are not all attention",
        ),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(changes: dict[str, Any], expected: str) -> None:
    assert refusal({**LLAMA, **changes}) == [expected]


def test_all_problems_come_at_once() -> None:
    assert len(refusal({"model_type": "llama", "hidden_size": -1, "num_attention_heads": "x"})) == 5


def test_mixtures_that_are_not_alike_in_every_layer_are_refused() -> None:
    config = CONFIGS["Qwen3-30B-A3B"][0]
    assert refusal({**config, "decoder_sparse_step": 2})[0].startswith("decoder_sparse_step: only models with experts")
    assert refusal({**config, "mlp_only_layers": [0]})[0].startswith("mlp_only_layers: only models with experts")
    odd = {**CONFIGS["Qwen2-57B-A14B"][0], "shared_expert_intermediate_size": 2561}
    assert refusal(odd) == ["shared_expert_intermediate_size: 2561 is no multiple of moe_intermediate_size 2560"]


def test_an_unknown_architecture_lists_those_that_are_known() -> None:
    (line,) = refusal({"model_type": "zzzzzzzzzz"})
    assert all(name in line for name in FAMILIES)
    assert "model_type` is missing" in refusal({"hidden_size": 8})[0]


@pytest.mark.parametrize("kind", REFUSED)
def test_refusals_have_a_reason(kind: str) -> None:
    assert refusal({"model_type": kind}) == [f"model_type: `{kind}` cannot be simulated: {REFUSED[kind]}"]


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
ANYTHING = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.sampled_from(["a", "model_type"]), SCALARS)
KEYS = [*LLAMA, "experts", "text_config", "n_embd", "sliding_window", "mlp_only_layers", "head_dim", "_name_or_path"]


@given(
    base=st.sampled_from([config for config, _ in CONFIGS.values()]),
    changes=st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=3),
)
@examples(100)
def test_no_config_raises_anything_but_an_input_error(base: dict[str, Any], changes: dict[str, Any]) -> None:
    try:
        translate({**base, **changes})
    except InputError as error:
        assert all(problem.path for problem in error.problems)


SCENARIO = """\
version: 1
name: x
cluster: workstation
model: {}
stack: pytorch-ddp
training: {{global_batch: 8, sequence_length: 128}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    (tmp_path / "models" / "mine" / "config.json").write_text(json.dumps(LLAMA, indent=2))
    return tmp_path


@pytest.mark.parametrize("reference", ["models/mine/config.json", "./models/mine", "models/mine/"])
def test_a_scenario_names_a_config_or_its_folder(folder: Path, reference: str) -> None:
    (folder / "s.yaml").write_text(SCENARIO.format(reference))
    loaded = load_scenario("s.yaml")
    assert loaded.spec.model.ffn == 14336
    assert loaded.origins["model.layers"] == "models/mine/config.json:9"
    assert loaded.origins["model.gated_ffn"] == "models/mine/config.json:5"
    assert "models/mine/config.json" in loaded.sources


QUANTIZED = [
    ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq, 4 bits", "int4"),
    ({"quant_method": "gptq", "bits": 3}, "gptq, 3 bits", None),
    ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8", "fp8"),
    ({"quant_method": "bitsandbytes", "load_in_4bit": True, "load_in_8bit": False}, "bitsandbytes, 4 bits", "int4"),
    ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "bitsandbytes, 8 bits", "int8"),
    ({"quant_method": "mxfp4", "modules_to_not_convert": []}, "mxfp4", "fp4"),
    ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt, 4 bits", "fp4"),
    (
        {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}}}},
        "compressed-tensors, 8 bits",
        "fp8",
    ),
    ({"quant_method": 5, "bits": [4], "config_groups": {"a": 1}}, "5", None),
    ({}, "a method that is not named", None),
]


@pytest.mark.parametrize(("said", "words", "closest"), QUANTIZED)
def test_quantised_weights_are_told(said: dict[str, Any], words: str, closest: str | None) -> None:
    model = shape({**LLAMA, "quantization_config": said})
    assert (model.quantization, model.quantized) == (words, closest)
    assert (f"weights: {closest}" if closest else "weight_bits: BITS") in model.quantization_note
    assert not shape({**LLAMA, "quantization_config": [1]}).quantization_note


def test_a_run_that_reads_quantised_weights_as_16_bits_says_so(folder: Path) -> None:
    config = {**LLAMA, "quantization_config": QUANTIZED[0][0]}
    (folder / "models" / "mine" / "config.json").write_text(json.dumps(config))
    changes = ["model=models/mine", "requests.count=5", "serving.context=8192"]
    open_ = simulate(load_scenario("serving/quickstart", changes).spec)
    assert any("write `serving: {precision: {weights: int4}}`" in text for text in open_.warnings)
    told = simulate(load_scenario("serving/quickstart", [*changes, "+serving.precision.weights=int4"]).spec)
    assert not any("quantised" in text for text in told.warnings)
    trained = simulate(load_scenario("quickstart", ["model=models/mine"]).spec)
    assert any("training takes `training.precision`" in text for text in trained.warnings)
    imported = import_file("models/mine", Machine("dgx-a100"))
    assert "weights: int4  # quantization_config" in imported


def test_a_config_can_be_extended_and_overridden(folder: Path) -> None:
    (folder / "s.yaml").write_text(SCENARIO.format("{extends: models/mine, name: mine, layers: 4}"))
    loaded = load_scenario("s.yaml", ["model.vocabulary=64"])
    assert (loaded.spec.model.name, loaded.spec.model.layers, loaded.spec.model.vocabulary) == ("mine", 4, 64)
    assert loaded.origins["model.layers"] == "s.yaml:4"
    assert load_scenario("s.yaml", ["model=models/mine"]).spec.model.layers == 32


def test_a_wrong_config_is_refused_with_file_and_line(folder: Path) -> None:
    wrong = {**LLAMA, "num_hidden_layers": 20_000, "num_attention_heads": "x"}
    (folder / "models" / "mine" / "config.json").write_text(json.dumps(wrong, indent=2))
    (folder / "s.yaml").write_text(SCENARIO.format("models/mine"))
    with pytest.raises(InputError) as caught:
        load_scenario("s.yaml")
    expected = "models/mine/config.json:8:26: num_attention_heads: `x` is not a whole number"
    assert str(caught.value).splitlines() == [expected]
    text = json.dumps({**LLAMA, "num_hidden_layers": 20_000}, indent=2)
    (folder / "models" / "mine" / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config.json:9:24: model.layers: `20000` is out of range"):
        load_scenario("s.yaml")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"model_type": "llama"', "null", '"llama"', "{" * 200, "\0"])
def test_a_broken_config_is_refused(folder: Path, text: str) -> None:
    (folder / "models" / "mine" / "config.json").write_text(text)
    (folder / "s.yaml").write_text(SCENARIO.format("models/mine"))
    with pytest.raises(InputError, match=r"models/mine/config\.json"):
        load_scenario("s.yaml")
