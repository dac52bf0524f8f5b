"""Errors of rows whose source taught their stack nothing, beside those of fits made again without it."""

from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks.left_out import is_taught, refitted, taught, unseen
from simulator.study.validate.training import Outcome

MEGATRON = "Megatron-Core 0.6 to 0.12 with Transformer Engine (NeMo, Megatron-Bridge)"


def outcome(name: str, source: str, stack: str = MEGATRON, error: float | None = 0.1) -> Outcome:
    """A row with an error, or one that could not be simulated."""
    row: Any = SimpleNamespace(source=source)
    like: Any = SimpleNamespace(conditions=SimpleNamespace(stack=stack))
    return Outcome(name, row, 1.0, None if error is None else 1 + error, like=None if error is None else like)


def test_a_source_that_no_figure_of_its_stack_names_errs_left_out_as_it_does() -> None:
    rows = [
        outcome("again", "megatron-bridge"),
        outcome("not again", "megatron-bridge"),
        outcome("never in a fit", "mlperf-training-v5.0", error=0.3),
        outcome("part of a name", "megatron"),
        outcome("refused", "mlperf-training-v5.0", error=None),
    ]
    found = unseen(rows, {"again": -0.2})
    assert found == pytest.approx({"again": -0.2, "never in a fit": 0.3, "part of a name": 0.1})


def test_stacks_name_what_taught_them() -> None:
    """What a fit or a choice rests on stands in the figures themselves, those of stacks that are extended included."""
    assert is_taught(outcome("x", "nvidia-dgxc-benchmarking"))
    assert "nemo-long-sequence" in taught("NVIDIA's NeMo containers 24.01 to 24.07")
    assert "megatron-moe-modelzoo" in taught("NVIDIA's NeMo containers 24.01 to 24.07")
    assert taught("a stack of one's own") == ""
    assert all(error > -1 for error in refitted().values())
    assert {"moezoo-h100-ep32", "mbridge-25.09-deepseekv3-b200-fp8-cs-270"} <= refitted().keys()
