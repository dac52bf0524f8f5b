"""Keys without effect are named, and have none."""

from typing import Any

import pytest

from simulator.run.simulate import simulate
from simulator.training.build import build_job
from tests import jobs

SPREAD = "scatter_gather: sequence parallelism cuts what is sent already, and nothing is gathered"
BLOCKS = "the host waits for every kernel"
SILENT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"overlap_pipeline": True}, {}, "overlap_pipeline: there is no pipeline, as pp is 1"),
    ({"overlap_pipeline": True, "blocking_launches": True}, {"pp": 2}, f"overlap_pipeline: {BLOCKS}"),
    ({"overlap_gradients": True, "blocking_launches": True}, {}, f"overlap_gradients: {BLOCKS}"),
    ({"overlap_parameters": True, "blocking_launches": True}, {"zero": 1}, f"overlap_parameters: {BLOCKS}"),
    (
        {"recompute": "full", "recompute_modules": ["norm"]},
        {},
        "recompute_modules: recompute is full, and only `selective` drops parts of layers",
    ),
    ({"scatter_gather": True}, {}, "scatter_gather: there is no pipeline, as pp is 1"),
    ({"scatter_gather": True}, {"pp": 2}, "scatter_gather: there is no tensor parallelism"),
    ({"scatter_gather": True}, {"pp": 2, "tp": 2, "sequence_parallel": True}, SPREAD),
    ({"scatter_gather": False}, {"pp": 2, "tp": 2, "sequence_parallel": True}, SPREAD),
    ({"quantized_parameters": True}, {}, "quantized_parameters: precision fp16 is not narrower here"),
    ({"quantized_attention": True}, {}, "quantized_attention: precision fp16 is not narrower here"),
]


@pytest.mark.parametrize(("training", "layout", "words"), SILENT, ids=[words for *_, words in SILENT])
def test_keys_without_effect_are_named_and_have_none(
    training: dict[str, Any], layout: dict[str, Any], words: str
) -> None:
    said = jobs.scenario(training=training, **layout)
    left = {"blocking_launches": True} if "blocking_launches" in training else {}
    assert f"no effect: {words}" in build_job(said).warnings
    assert simulate(said).metrics == simulate(jobs.scenario(training=left, **layout)).metrics


def test_mxfp8_keeps_parameters_in_16_bits() -> None:
    given = {"precision": "mxfp8", "quantized_parameters": True}
    found = build_job(jobs.scenario(on="dgx-b200", software=jobs.stack("megatron-core"), training=given))
    assert "no effect: quantized_parameters: mxfp8 keeps parameters in 16 bits" in found.warnings


def test_keys_with_effect_are_not_named() -> None:
    training = {"overlap_pipeline": True, "scatter_gather": True, "precision": "fp8", "quantized_parameters": True}
    software = jobs.stack("megatron-core", sequence_parallel=False)
    found = build_job(jobs.scenario(on="generic-h100", software=software, pp=2, tp=2, training=training))
    assert not [text for text in found.warnings if "no effect" in text]
