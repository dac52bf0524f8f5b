"""Settings of published recipes that rows leave out."""

import re

import pytest

from simulator.interop.rows.recipes import RECIPES, recipe, settings
from simulator.interop.rows.training import Row

BRIDGE = {
    "id": "row",
    "source": "megatron-bridge",
    "table": "26.06 NeMo container, DeepSeekV3",
    "framework": "Megatron-Bridge (Megatron-Core)",
    "model": "DeepSeekV3",
    "device": "GB200",
    "devices": 256,
    "hidden": 7168,
    "layers": 61,
    "heads": 128,
    "seq_len": 4096,
    "experts": 256,
    "topk": 8,
    "precision": "mxfp8",
    "global_batch": 4096,
    "primary_metric": "step_s",
}


def row(**changes: object) -> Row:
    return Row.model_validate(BRIDGE | changes)


def test_a_recipe_is_that_of_the_release_the_model_and_the_device() -> None:
    assumed: list[str] = []
    assert settings(row(), assumed) == {
        "dispatcher": "deepep",
        "cuda_graphs": ("all",),
        "recompute": "selective",
        "recompute_modules": ("latent",),
        "overlap_experts": True,
    }
    assert "as in the recipe of the release (Megatron-Bridge #4226)" in assumed[0]
    assert settings(row(table="26.02 NeMo container, DeepSeekV3"), [])["cuda_graphs"] == ("attention", "router")
    assert settings(row(device="H100-80GB", model="Qwen3_235B_a22B"), []) == {
        "dispatcher": "alltoall",
        "overlap_experts": True,
    }


def test_cards_of_performance_run_the_recipes_of_their_time() -> None:
    found = settings(row(table="items.pretrain_performance.GB300", device="GB300"), [])
    assert (found["cuda_graphs"], found["overlap_experts"]) == (("all",), True)
    assert settings(row(table="items.pretrain.GB300", device="GB300"), []) == {}


def test_recipes_of_blackwell_run_attention_in_8_bits_where_they_say_so() -> None:
    assert settings(row(device="GB300"), [])["quantized_attention"]
    assert "recompute" not in settings(row(device="GB300"), [])
    assert "quantized_attention" not in settings(row(), [])
    assert settings(row(model="Qwen3_235B_a22B"), [])["quantized_attention"]


def test_every_entry_says_where_it_was_read() -> None:
    """A commit of seven digits or a pull request or issue of Megatron-Bridge."""
    for one in RECIPES:
        for source in one.source.split(", "):
            assert re.fullmatch(r"#\d{4}|[0-9a-f]{7}", source), one


@pytest.mark.parametrize(
    ("model", "device", "release", "precision", "dispatcher", "graphs", "overlap"),
    [
        ("DeepSeekV3", "GB200", "25.11", "bf16", "deepep", ("router",), False),  # d19cb73, GB200
        ("DeepSeekV3", "H100-80GB", "25.09", "fp8", "deepep", (), True),  # d19cb73, H100: moe_a2a_overlap
        ("DeepSeekV3", "H100-80GB", "26.02", "fp8", "deepep", (), False),  # f0e2c37, H100: moe_a2a_overlap=False
        ("Qwen3_235B_a22B", "B300", "26.02", "mxfp8", "alltoall", (), True),  # f29a269, B300 V2
        ("Qwen3_235B_a22B", "B300", "26.04", "mxfp8", "alltoall", (), False),  # 01b2977, B300 V2
        ("Qwen3_235B_a22B", "B300", "26.04.01", "mxfp8", "deepep", (), False),  # #3490: HybridEP
        (
            "Qwen3_30B_a3B",
            "GB200",
            "25.11",
            "fp8-mx",
            "alltoall",
            ("attention", "router"),
            False,
        ),  # 767255d: no backend
        ("Qwen3_30B_a3B", "H100-80GB", "26.02", "fp8", "alltoall", (), True),  # 767255d, #2119
        ("Qwen3_30B_a3B", "B200", "26.02.01", "mxfp8", "deepep", ("attention", "router"), False),  # #2499
        ("Qwen3_30B_a3B", "B300", "26.06", "mxfp8", "deepep", ("all",), True),  # #4249, #4587
        ("Qwen3_30B_a3B", "B300", "26.06.01", "mxfp8", "deepep", ("all",), True),  # #4606
        ("GPT OSS 120B", "B300", "26.02", "bf16", "alltoall", ("attention", "router"), False),  # 1e7adfa
    ],
)
def test_settings_are_those_of_the_commit(
    model: str, device: str, release: str, precision: str, dispatcher: str, graphs: tuple[str, ...], overlap: bool
) -> None:
    said = row(model=model, device=device, precision=precision, table=f"{release} NeMo container, {model}")
    found = settings(said, [])
    assert (found["dispatcher"], found.get("cuda_graphs", ()), found.get("overlap_experts", False)) == (
        dispatcher,
        graphs,
        overlap,
    )


def test_plain_fp8_is_scaled_as_it_is() -> None:
    """Configurations for H100 are of current scaling alone (FP8_CS); what a row says more closely stays."""
    assumed: list[str] = []
    plain = row(device="H100-80GB", model="Qwen3_30B_a3B", precision="fp8")
    assert settings(plain, assumed)["precision"] == "fp8-current"
    assert "scales of tensors as they are" in assumed[0]
    assert "precision" not in settings(row(device="H100-80GB", precision="fp8-sc"), [])


def test_what_a_row_says_is_not_replaced() -> None:
    assert "recompute" not in settings(row(recompute="none"), [])


def test_rows_of_others_have_no_recipe() -> None:
    assert recipe(row(framework="Megatron-Core")) is None
    assert recipe(row(table=None)) is None
    assert recipe(row(experts=None, topk=None)) is None
    assert recipe(row(model="Grok-1", device="H100-80GB")) is None
    assert settings(row(table=None), []) == {}


def test_a_release_whose_recipe_is_not_known_has_none() -> None:
    said = row(model="Qwen3_30B_a3B", device="H100-80GB", precision="fp8", table="26.02.01 NeMo container, Qwen3_30B")
    assert recipe(said) is None
