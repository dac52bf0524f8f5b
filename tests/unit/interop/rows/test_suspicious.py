"""Rows that contradict themselves or physics are quarantined with the reason; no shipped row is."""

import json
from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused, id_of, read_lines, read_row
from simulator.interop.rows.kernels import KernelRow, map_kernel
from simulator.interop.rows.network import NetworkRow, map_network
from simulator.interop.rows.serving import ServingRow
from simulator.interop.rows.suspicious import MARK, check_serving, check_training, contradicted, contradicted_lines
from simulator.interop.rows.training import Row
from simulator.specs import data_root
from simulator.study.validate.published import KINDS

ROWS = data_root() / "workloads" / "measurements"
TRAINED: dict[str, Any] = {
    "id": "t",
    "source": "s",
    "precision": "bf16",
    "device": "H100 SXM 80GB",
    "devices": 8,
    "peak_flops_bf16": 989e12,
    "model": "a dense one",
    "params_b": 7.0,
    "hidden": 4096,
    "layers": 32,
    "heads": 32,
    "seq_len": 4096,
    "global_batch": 64,
    "primary_metric": "step_s",
    "step_s": 3.0,
}
KERNEL: dict[str, Any] = {
    "id": "k",
    "source": "s",
    "op": "gemm",
    "accelerator": "H100-SXM",
    "dtype": "bf16",
    "shape": {"m": 4096, "n": 4096, "k": 4096},
    "metrics": {"time_s": 2e-4},
}
SENT: dict[str, Any] = {
    "id": "n",
    "source": "s",
    "op": "all_reduce",
    "accelerator_id": "h100-sxm",
    "num_ranks": 8,
    "num_nodes": 1,
    "size_bytes": 1e9,
    "metrics": {"time_s": 4e-3},
}


def reason(check: Any, form: Any, row: dict[str, Any]) -> str:
    """Why a row is set aside; empty where it is not."""
    try:
        check(read_row(form, row))
    except Refused as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, ""),
        ({"tokens_per_s_per_device": 64 * 4096 / 3.0 / 8}, ""),
        ({"tokens_per_s_per_device": 64 * 4096 / 3.0}, "its figures are of different steps: step_s 3 s"),
        ({"samples_per_s": 64 / 4.0}, "samples_per_s 4 s"),
        ({"mfu": 1.2}, "an MFU of 1.20"),
        ({"flops_per_s_per_device": 1.1e15}, "1100 TFLOP/s of a peak of 989"),
        ({"flops_per_s_per_device": 1.1e15, "precision": "fp8"}, ""),
        ({"step_s": 1.0}, "7 billion parameters need 1376 TFLOP/s of a peak of 989"),
        ({"step_s": 1.0, "experts": 8}, ""),
        ({"step_s": 1.0, "task": "lora"}, ""),
        ({"step_s": 1.4, "task": "LoRA fine-tuning"}, ""),
        ({"step_s": 1.4, "task": "full fine-tuning"}, ""),
        ({"step_s": 1.4, "task": "full fine-tuning", "recompute": "full"}, "need 1311 TFLOP/s of a peak of 989"),
        ({"step_s": 1.0, "task": "LoRA fine-tuning", "recompute": "full"}, "need 1376 TFLOP/s of a peak of 989"),
    ],
)
def test_a_row_of_training_that_cannot_be_true(change: dict[str, Any], words: str) -> None:
    found = reason(check_training, Row, TRAINED | change)
    assert (found.startswith(MARK) and words in found) if words else found == ""


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"output_tokens_per_s": 100.0, "total_tokens_per_s": 300.0}, ""),
        ({"output_tokens_per_s": 400.0, "total_tokens_per_s": 300.0}, "400 output tokens a second of 300 of all"),
        ({"ttft_mean_s": 2.0, "e2e_mean_s": 1.0}, "a first token after 2 s of requests of 1 s"),
        ({"tpot_mean_s": 0.02, "e2e_mean_s": 1.0}, "100 tokens of 0.02 s in requests of 1 s"),
        ({"tpot_mean_s": 0.01, "e2e_mean_s": 1.0}, ""),
    ],
)
def test_a_row_of_serving_that_cannot_be_true(metrics: dict[str, float], words: str) -> None:
    line = next(line for line in (ROWS / "serving.jsonl").read_text().splitlines() if "online" in line)
    row = json.loads(line) | {"output_len": 100, "metrics": metrics}
    found = reason(check_serving, ServingRow, row)
    assert (found.startswith(MARK) and words in found) if words else found == ""


@pytest.mark.parametrize("rate", [2 * 4096**3 / 2e-4, 2 * 4096**3 / 1e-4])
def test_a_kernel_whose_rate_is_not_its_work_over_its_time(rate: float) -> None:
    row = KERNEL | {"metrics": {"time_s": 2e-4, "flops_per_s": rate}}
    found = reason(map_kernel, KernelRow, row)
    assert found == "" if rate < 1e15 else found == f"{MARK}`flops_per_s` says 0.0001 s, `time_s` 0.0002 s"


@pytest.mark.parametrize(("rate", "true"), [(1e9 * 1.75 / 4e-3, True), (1e9 / 4e-3, False)])
def test_a_collective_whose_bandwidth_is_not_its_bytes_over_its_time(rate: float, true: bool) -> None:
    found = reason(map_network, NetworkRow, SENT | {"metrics": {"time_s": 4e-3, "busbw_bytes_per_s": rate}})
    assert found == "" if true else found.startswith(f"{MARK}`busbw_bytes_per_s` says")


@pytest.mark.parametrize(
    ("file", "form", "check"),
    [
        ("training.jsonl", Row, check_training),
        ("serving.jsonl", ServingRow, check_serving),
        ("kernels.jsonl", KernelRow, map_kernel),
        ("network.jsonl", NetworkRow, map_network),
    ],
)
def test_no_shipped_row_is_quarantined(file: str, form: Any, check: Any) -> None:
    rows = map(json.loads, (ROWS / file).read_text().splitlines())
    assert [row["id"] for row in rows if MARK in reason(check, form, row)] == []


@pytest.mark.parametrize(
    ("times", "aside"),
    [
        ((0.5, 1.7, 3.5), False),  # longer prompts take longer for each token
        ((1.4, 2.6, 4.0), False),  # what is set up counts in the shortest one
        ((1.5, 4.7, 6.2), True),  # 1.05 ms a token from 1,024 on, 0.36 from 4,096 on
        ((1.5, 4.7), False),
    ],
)
def test_later_tokens_of_a_prompt_are_not_read_faster(times: tuple[float, ...], aside: bool) -> None:
    alone = {"kind": "single_stream_prefill", "source": "a table", "accelerator": "a card", "model": "Llama-3-8B"}
    sizes = (1024, 4096, 8192)
    rows = [
        alone | {"id": f"pp{size}", "input_len": size, "metrics": {"input_tokens_per_s": size / time}}
        for size, time in zip(sizes, times, strict=False)
    ]
    other = alone | {"input_len": 2048, "metrics": {"input_tokens_per_s": 1e6}, "accelerator": "another"}
    found = contradicted([other, *rows, {}, alone | {"input_len": "long", "metrics": None}, {"metrics": "fast"}])
    assert list(found) == ([1, 2, 3] if aside else [])
    assert set(found.values()) <= {"tokens 4097 to 8192 of a prompt took 0.366 ms each, those before 1.04"}


def test_shipped_rows_that_others_contradict_are_listed() -> None:
    """Two, four and four cards of one table, in 16 bits, which read prompts faster the longer they are."""
    lines = list(read_lines(ROWS / "serving.jsonl"))
    found = {id_of(lines[place]) for place in contradicted_lines(lines)}
    machines = ("a100-sxm-80gb", "a100-sxm-80gb-4", "l40s-48gb-4", "rtx-5000-ada-32gb-4")
    assert found == {f"llamacpp-dai-{name}-8b-f16-pp{size}" for name in machines for size in (1024, 4096, 8192)}
    few = [line for line in lines if "rtx-5000-ada-32gb-4-8b-f16" in (line.text or "")]
    outcomes = KINDS["serving"].validate(few)
    assert [MARK in one.refused for one in outcomes if "-pp" in one.id] == [True] * 3
    assert [one.refused for one in outcomes if "-tg" in one.id] == [""] * (len(outcomes) - 3)
