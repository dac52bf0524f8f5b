"""Encoders of images of published configs: their sizes, and their parameters beside the published ones."""

import json
from pathlib import Path
from typing import Any

import pytest

import simulator.run  # noqa: F401 - registers the reader of configs
from simulator.errors import InputError
from simulator.interop.huggingface.translate import translate
from simulator.serving.costs.beside.vision import projector
from simulator.serving.fleet.system import resolve
from simulator.serving.workload.images import patches, tokens
from simulator.specs import load_scenario
from simulator.specs.model.vision import Vision
from simulator.specs.scenario import ServingScenario

TEXT = {
    "num_hidden_layers": 1,
    "hidden_size": 2560,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 1000,
}
QWEN2 = {
    **TEXT,
    "model_type": "qwen2_vl",
    "vision_config": {
        "depth": 32,
        "embed_dim": 1280,
        "mlp_ratio": 4,
        "num_heads": 16,
        "in_chans": 3,
        "hidden_size": 2560,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}
QWEN25 = {
    **TEXT,
    "model_type": "qwen2_5_vl",
    "vision_config": {
        "depth": 32,
        "hidden_act": "silu",
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 2560,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    },
}
QWEN3 = {
    "model_type": "qwen3_vl",
    "text_config": {**TEXT, "model_type": "qwen3_vl_text"},
    "vision_config": {
        "deepstack_visual_indexes": [8, 16, 24],
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": 2560,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    },
}
GEMMA3 = {
    "model_type": "gemma3",
    "mm_tokens_per_image": 256,
    "text_config": {**TEXT, "model_type": "gemma3_text"},
    "vision_config": {
        "hidden_size": 1152,
        "image_size": 896,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "patch_size": 14,
    },
}
MISTRAL3 = {
    "model_type": "mistral3",
    "spatial_merge_size": 2,
    "text_config": {**TEXT, "model_type": "mistral"},
    "vision_config": {
        "hidden_size": 1024,
        "image_size": 1540,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "patch_size": 14,
    },
}
LLAMA4 = {
    "model_type": "llama4",
    "text_config": {**TEXT, "model_type": "llama4_text", "num_local_experts": 2, "interleave_moe_layer_step": 1},
    "vision_config": {
        "hidden_size": 1408,
        "image_size": 336,
        "intermediate_size": 5632,
        "num_attention_heads": 16,
        "num_hidden_layers": 34,
        "patch_size": 14,
        "pixel_shuffle_ratio": 0.5,
        "projector_input_dim": 4096,
        "projector_output_dim": 4096,
        "vision_output_dim": 4096,
    },
}
ALL = {"qwen2": QWEN2, "qwen2.5": QWEN25, "qwen3": QWEN3, "gemma3": GEMMA3, "mistral3": MISTRAL3, "llama4": LLAMA4}
SERVED = """version: 1
name: tower
cluster: {extends: clusters/dgx-h100, nodes: 1}
model: ./config.json
stack: vllm
serving: {parallel: {tp: 1}}
requests: {arrivals: {poisson: 1 /s}, lengths: {prompt: {fixed: 10}, output: {fixed: 10}}, count: 1}
"""


def vision_of(config: dict[str, Any]) -> Vision:
    return Vision.model_validate(translate(config).fields["vision"])


def served(config: dict[str, Any], folder: Path) -> ServingScenario:
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tower.yaml").write_text(SERVED)
    scenario = load_scenario(str(folder / "tower.yaml")).scenario
    assert isinstance(scenario, ServingScenario)
    return scenario


@pytest.mark.parametrize(
    ("config", "published", "whole"),
    [
        (QWEN2, 675e6, True),  # arXiv:2409.12191, Table 1; of the model whose tokens are 3,584 wide, set below
        (GEMMA3, 417e6, False),  # arXiv:2503.19786, Table 1
        (MISTRAL3, 400e6, False),  # arXiv:2410.07073, section 2.2
    ],
    ids=["qwen2-vl", "gemma-3", "pixtral"],
)
def test_parameters_are_the_published_ones(
    config: dict[str, Any], published: float, whole: bool, tmp_path: Path
) -> None:
    scenario = served({**config, "hidden_size": 3584} if whole else config, tmp_path)
    encoder, vision = resolve(scenario)[0].cost.vision, scenario.model.vision
    assert encoder is not None and vision is not None
    beside = 0 if whole else sum(one.n * one.k for one in projector(vision, scenario.model.hidden, 1))
    assert encoder.weights_bytes / 2 - beside == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize(
    ("name", "width", "height", "patch", "token"),
    [
        ("qwen2", 1024, 768, 74 * 55, 1018),
        ("qwen2.5", 1024, 768, 74 * 55, 1018),
        ("qwen3", 1024, 768, 64 * 48, 768),
        ("gemma3", 1024, 768, 64 * 64, 256),
        ("gemma3", 10, 10, 64 * 64, 256),
        ("mistral3", 1024, 768, 74 * 55, 1018),
        ("llama4", 336, 336, 24 * 24, 144),
    ],
)
def test_tokens_of_an_image(name: str, width: int, height: int, patch: int, token: int) -> None:
    vision = vision_of(ALL[name])
    assert patches(width, height, vision) == patch
    assert tokens(patch, vision) == token


@pytest.mark.parametrize(
    ("name", "matrices"),
    [
        ("qwen2", [(5120, 5120), (5120, 2560)]),
        ("gemma3", [(1152, 2560)]),
        ("mistral3", [(4096, 1024), (1024, 2560), (2560, 2560)]),
        ("llama4", [(5632, 4096), (4096, 4096), (4096, 2560)]),
    ],
)
def test_projectors(name: str, matrices: list[tuple[int, int]]) -> None:
    vision = vision_of(ALL[name])
    assert [(one.k, one.n) for one in projector(vision, 2560, 1)] == matrices
    cut = [one.k * one.n for one in projector(vision, 2560, 2)]  # pairs are halved, the odd one is whole
    pairs = len(matrices) // 2 * 2
    assert cut == [k * n // (2 if place < pairs else 1) for place, (k, n) in enumerate(matrices)]


def test_layers_that_deepstack_taps_have_projectors_of_their_own() -> None:
    assert vision_of(QWEN3).projectors == 4


def test_what_is_left_out_is_said() -> None:
    assert "windows of the vision tower" in str(translate(QWEN25).fields["source"])
    other = {**GEMMA3, "model_type": "unheard_of"}
    assert "vision" not in translate(other).fields
    assert "the vision tower" in str(translate(other).fields["source"])
    assert "vision" not in str(translate({**GEMMA3, "vision_config": {}}).fields["source"])


@pytest.mark.parametrize(
    ("config", "changes", "path", "words"),
    [
        (QWEN2, {"depth": "many"}, "vision_config.depth", "not a whole number"),
        (GEMMA3, {"image_size": 910}, "vision_config.image_size", "are not 256 tokens"),
        (LLAMA4, {"pixel_shuffle_ratio": 0.25}, "vision_config.pixel_shuffle_ratio", "is not 0.5"),
    ],
)
def test_towers_that_are_none(config: dict[str, Any], changes: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        translate({**config, "vision_config": {**config["vision_config"], **changes}})
    assert caught.value.problems[0].path == path
