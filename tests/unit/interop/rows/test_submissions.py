"""Layouts of MLPerf submissions that tables of results leave out."""

import re

import pytest

from simulator.interop.rows.submissions import SUBMISSIONS, stated
from simulator.interop.rows.training import Row, draft

LORA = {
    "id": "row",
    "source": "mlperf-training-v4.1",
    "task": "lora finetune",
    "framework": "NeMo",
    "model": "llama2-70b",
    "device": "H100-80GB",
    "devices": 64,
    "devices_per_node": 8,
    "hidden": 8192,
    "layers": 80,
    "heads": 64,
    "kv_heads": 8,
    "ffn": 28672,
    "gated_ffn": True,
    "vocab": 32000,
    "seq_len": 8192,
    "precision": "fp8",
    "global_batch": 8,
    "primary_metric": "step_s",
    "step_s": 0.5,
    "notes": "LoRA rank 16; grad accum 1",
}
MI300X = {"source": "mlperf-training-v5.0", "framework": "LLMBoost", "device": "MI300X"}


def row(**changes: object) -> Row:
    return Row.model_validate(LORA | changes)


@pytest.mark.parametrize(
    ("changes", "layout", "overlap"),
    [
        ({}, (4, 2), None),
        ({"devices": 8, "notes": "LoRA; grad accum 4"}, (4, 1), None),
        ({"devices": 4, "devices_per_node": 4, "notes": "LoRA; grad accum 8"}, (4, 1), "none"),
        (MI300X | {"devices": 16}, (1, 2), None),
        (MI300X | {"devices": 32}, (1, 4), None),
    ],
)
def test_devices_of_a_model_lie_on_the_axes_of_the_submission(
    changes: dict[str, object], layout: tuple[int, int], overlap: str | None
) -> None:
    found = draft(row(**changes))
    training = found.scenario.training
    assert training is not None
    assert (training.parallel.tp, training.parallel.cp) == layout
    assert training.overlap_tensor == overlap
    assert training.lora is not None
    assert training.lora.dropout == 0.1
    assert any("as in the submission" in one for one in found.assumed)


def test_what_a_row_says_itself_is_kept() -> None:
    same = row(tp=8)
    assert stated(same, []) == (same, {})
    assert stated(row(source="somebody"), [])[1] == {}
    assert stated(row(devices=128, notes="LoRA; grad accum 1"), [])[0].tp is None


def test_layers_that_a_submission_computes_again() -> None:
    training = draft(row(**MI300X, devices=16)).scenario.training
    assert training is not None
    assert (training.recompute, training.recompute_layers) == ("full", 21)


def test_every_entry_says_where_it_was_read() -> None:
    for one in SUBMISSIONS:
        assert re.search(r"training_results_v[45]\.\d \w+/benchmarks/llama2_70b_lora/\S+\.sh$", one.script), one


@pytest.mark.parametrize(("changes", "turned"), [({}, True), (MI300X | {"devices": 16}, None)])
def test_frozen_weights_have_one_order_where_the_submission_says_so(
    changes: dict[str, object], turned: bool | None
) -> None:
    found = draft(row(**changes))
    assert found.scenario.training is not None
    assert found.scenario.training.turned_weights is turned
    assert any("weights in one order" in one for one in found.assumed) is bool(turned)


@pytest.mark.parametrize(("round_", "graphs"), [("v4.0", ()), ("v4.1", ("all",))])
def test_layers_over_two_ranks_of_sequences_are_captured_from_the_second_round_on(
    round_: str, graphs: tuple[str, ...]
) -> None:
    found = draft(row(source=f"mlperf-training-{round_}"))
    assert found.scenario.training is not None
    assert found.scenario.training.cuda_graphs == graphs
