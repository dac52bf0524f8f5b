"""Published kernels: what a row stands for, what is refused, and the error on the shipped rows."""

from typing import Any

import pytest

from simulator.cli import main
from simulator.cost import Attention, Gemm, Stream
from simulator.interop.rows.jsonl import Refused, read_lines, read_row
from simulator.interop.rows.kernels import KernelRow, map_kernel
from simulator.run.measured.kernels import predicted, work_of
from simulator.study.validate.accuracy import statistics
from simulator.study.validate.published import KINDS, chosen

ROW: dict[str, Any] = {
    "id": "k1",
    "op": "gemm",
    "source": "test",
    "accelerator": "NVIDIA A100 SXM 80GB",
    "dtype": "fp16",
    "shape": {"m": 8192, "n": 8192, "k": 8192},
    "library": "cuBLASLt",
    "metrics": {"flops_per_s": 250e12},
}


def mapped(**changes: Any) -> Any:
    return map_kernel(read_row(KernelRow, ROW | changes))


def test_a_rate_of_a_product_is_a_time() -> None:
    """2 x 8,192^3 at 250 TFLOP/s are 4.398 ms."""
    measured, ours, metric, profile = predicted(mapped())
    assert measured == pytest.approx(2 * 8192**3 / 250e12)
    assert ours == pytest.approx(measured, rel=0.25)
    assert metric == "flops_per_s"
    assert profile


def test_groups_are_a_batch_and_blocks_a_format() -> None:
    shape = {"groups": 4, "m_per_group": 256, "n": 4096, "k": 7168}
    words = "fp8_e4m3 (128x128 block scales), bf16 out"
    found = mapped(op="grouped_gemm_masked", accelerator="NVIDIA H800 SXM5 80GB", dtype=words, shape=shape)
    assert work_of(found) == (Gemm(256, 4096, 7168, 4, "fp8_block"),)


def test_attention_counts_as_flash_attention_does() -> None:
    """4 b s^2 h d forward, 3.5 times that with the backward pass: at 175 TFLOP/s 11.0 ms."""
    shape = {"batch": 2, "seqlen": 8192, "head_dim": 64}
    row = {"op": "attention_fwd_bwd", "shape": shape, "library": "FlashAttention-2", "metrics": {"flops_per_s": 175e12}}
    found = mapped(**row)
    assert found.assumed == ("hidden size of 2,048, no mask",)
    forward, backward = work_of(found)
    assert isinstance(forward, Attention)
    assert (forward.heads, forward.causal, forward.kernel, backward.backward) == (32, False, "fa2", True)
    measured, _, _, _ = predicted(found)
    assert measured == pytest.approx(3.5 * 4 * 2 * 8192**2 * 2048 / 175e12)
    unfused = work_of(mapped(**row | {"library": "PyTorch standard attention"}))
    assert [type(work) for work in unfused] == [Gemm, Gemm, Stream, Gemm, Gemm, Gemm, Gemm, Stream]


def test_passes_read_and_write_whole_arrays() -> None:
    (triad,) = work_of(mapped(op="stream_triad", shape={}, dtype="fp64", metrics={"bytes_per_s": 1.7e12}))
    assert (triad.read_bytes, triad.write_bytes) == (2 * 2**28, 2**28)
    (scale,) = work_of(mapped(op="kernel_sequence_scale_graph", shape={"bytes": 65536}, dtype="fp64"))
    assert (scale.read_bytes, scale.write_bytes) == (32768, 32768)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"op": "memory_latency_l1"}, "memory_latency_l1"),
        ({"accelerator": "AMD MI100"}, "no accelerator profile"),
        ({"dtype": "unstated"}, "number format"),
        ({"shape": {"m": 8, "n": 8}}, "without k"),
        ({"shape": {"m": 8, "n": 8, "k": "wide"}}, "without k"),
        ({"op": "attention_fwd", "shape": {"batch": 1, "seqlen": 8, "head_dim": 8}}, "attention of cuBLASLt"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        mapped(**changes)


def test_formats_that_a_device_lacks_are_refused() -> None:
    with pytest.raises(Refused, match="fp8 on"):
        predicted(mapped(dtype="fp8"))


def test_the_shipped_rows_are_within_the_errors_that_the_page_states() -> None:
    kind, lines = chosen(list(read_lines(KINDS["kernel"].shipped)))
    assert kind.name == "kernel"
    outcomes = [outcome for outcome in kind.validate(lines) if outcome.error is not None]
    assert len(outcomes) >= 199
    errors = {family: [o.error for o in outcomes if o.row.family == family] for family in ("products", "attention")}
    assert statistics(errors["attention"]).median < 0.04
    assert statistics(errors["products"]).median < 0.11


def test_the_command_lists_them_by_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--kind", "kernel", "--by", "family,library"]) == 0
    assert "by family" in capsys.readouterr().out
