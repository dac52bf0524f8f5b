"""Limits as trtllm-bench derives them, worked out by hand from the sizes of published models."""

import pytest

from simulator.interop.rows.jsonl import parse_line, read_lines, read_row
from simulator.interop.rows.serving import ServingRow, draft_serving
from simulator.interop.rows.trtllm_bench import Devices, limits, requests, ruled
from simulator.specs import data_root, load_spec
from simulator.specs.model import Model
from simulator.specs.serving import NumberFormats

GIB = 1 << 30


def of(model: str, formats: NumberFormats, devices: Devices, lengths: tuple[int, int]) -> tuple[int, int]:
    return limits(load_spec(Model, model), formats, devices, lengths, 0.9)


def test_as_many_sequences_as_the_cache_holds_and_a_prompt_for_each_answer_that_ends() -> None:
    # Llama 3.1 8B: 80 GiB - 8.03e9 bytes, nine tenths of it, over 65,536 bytes a token: 1,069,325 tokens
    fp8 = NumberFormats(weights="fp8", kv="fp8")
    assert of("llama-3.1-8b", fp8, Devices(80 * GIB, 1, 1), (1000, 1000)) == (640, 2048)  # 535 x 2 are 1,070 tokens
    assert of("llama-3.1-8b", fp8, Devices(80 * GIB, 1, 1), (128, 128)) == (4096, 8192)  # 4,177, but 4,096 at most
    assert of("llama-3.1-8b", fp8, Devices(80 * GIB, 1, 1), (2048, 128)) == (512, 9216)  # 491 x 17 are 8,354


def test_stages_share_them_and_key_heads_fewer_than_devices_are_copied() -> None:
    fp8 = NumberFormats(weights="fp8", kv="fp8")
    assert of("llama-3.1-8b", fp8, Devices(80 * GIB, 1, 2), (1000, 1000))[0] == 640
    whole = of("llama-3.1-8b", fp8, Devices(8 * GIB, 8, 1), (1000, 1000))
    assert of("llama-3.1-8b", fp8, Devices(4 * GIB, 16, 1), (1000, 1000))[0] < whole[0]


def test_engines_read_what_is_stored_of_weights_in_four_bits_as_half_a_byte() -> None:
    fp4 = NumberFormats(weights="fp4", kv="fp8")
    assert of("llama-3.1-8b", fp4, Devices(4 * GIB, 1, 1), (1000, 1000)) == (64, 2048)


@pytest.mark.parametrize(
    ("model", "formats", "known"),
    [
        ("llama-3.1-8b", NumberFormats(), True),
        ("llama-3.1-8b", NumberFormats(weights="int4"), False),
        ("gpt-oss-120b", NumberFormats(weights="bf16", experts="fp4"), False),
        ("deepseek-r1", NumberFormats(weights="fp8"), False),
    ],
)
def test_formats_without_a_rule_leave_the_defaults(model: str, formats: NumberFormats, known: bool) -> None:
    assert ruled(load_spec(Model, model), formats) is known


def test_requests_of_the_tables() -> None:
    lengths = [(128, 128), (500, 2000), (1000, 2000), (8192, 1024), (20_000, 2000)]
    assert [requests(*one) for one in lengths] == [30_000, 3_000, 1_500, 1_500, 1_000]


def test_rows_of_tables_that_no_fit_has_seen_are_other_rows_and_are_understood() -> None:
    folder = data_root() / "workloads" / "measurements"
    rows, known = (
        [parse_line(one) for one in read_lines(folder / name)] for name in ("serving-tables.jsonl", "serving.jsonl")
    )
    figures = ("source", "model", "accelerator", "num_accelerators", "input_len", "output_len")
    seen = {tuple(one.get(key) for key in figures) for one in known}
    assert len(rows) == 136 and not seen & {tuple(one[key] for key in figures) for one in rows}
    assert {draft_serving(read_row(ServingRow, one)).stack for one in rows} == {"tensorrt-llm-pytorch"}
