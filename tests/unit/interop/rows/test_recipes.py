"""Settings of published recipes that rows leave out."""

from simulator.interop.rows.recipes import recipe, settings
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
    assert "as in the recipes of the release" in assumed[0]
    assert settings(row(table="26.02 NeMo container, DeepSeekV3"), [])["cuda_graphs"] == ("attention", "router")
    assert settings(row(device="H100-80GB", model="Qwen3_235B_a22B"), []) == {
        "dispatcher": "alltoall",
        "overlap_experts": True,
    }


def test_what_a_row_says_is_not_replaced() -> None:
    assert "recompute" not in settings(row(recompute="none"), [])


def test_rows_of_others_have_no_recipe() -> None:
    assert recipe(row(framework="Megatron-Core")) is None
    assert recipe(row(table=None)) is None
    assert recipe(row(experts=None, topk=None)) is None
    assert recipe(row(model="Grok-1", device="H100-80GB")) is None
    assert settings(row(table=None), []) == {}
