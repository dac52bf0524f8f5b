"""Published kernels: what a row stands for, what is refused, and the error on the shipped rows."""

import json
from typing import Any

import pytest

from simulator.cli import main
from simulator.cost import Attention, Decode, Gemm, Stream
from simulator.interop.rows.jsonl import Line, Refused, read_lines, read_row
from simulator.interop.rows.kernels import KernelRow, map_kernel
from simulator.run.measured.kernels import predicted, work_of
from simulator.study.validate.accuracy import statistics
from simulator.study.validate.published import KINDS, chosen, kind_of

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


def test_a_host_that_launches_one_by_one_holds_short_kernels_back() -> None:
    """3 us a launch, 1.3 us in a captured graph."""
    row = {"shape": {"bytes": 65536}, "dtype": "fp64", "metrics": {"time_s": 2.6e-6}}
    graph = predicted(mapped(op="kernel_sequence_scale_graph", **row))[1]
    assert graph < 2e-6
    assert predicted(mapped(op="kernel_sequence_scale_stream", **row))[1] == 3e-6
    long = row | {"shape": {"bytes": 1 << 28}}
    ways = ("kernel_sequence_scale_graph", "kernel_sequence_scale_stream")
    assert len({predicted(mapped(op=way, **long))[1] for way in ways}) == 1


def test_decodes_read_their_cache_and_footprints_beyond_the_cache_the_memory() -> None:
    shape = {"batch": 8, "context": 4096, "heads": 32, "kv_heads": 8, "head_dim": 128}
    found = mapped(op="attention_decode", dtype="bf16", shape=shape, metrics={"bytes_per_s": 1.4e12})
    assert work_of(found) == (Decode(8, 8 * 4096, 32, 8, 128, 2.0),)
    assert predicted(found)[0] == pytest.approx(2 * 8 * 4096 * 8 * 128 * 2 / 1.4e12)
    cache = {"op": "cache_read_bandwidth", "metrics": {"bytes_per_s": 1.5e12}, "dtype": None}
    measured, ours, _, _ = predicted(mapped(**cache, shape={"footprint_bytes": 4 << 30}))
    assert measured == (4 << 30) / 1.5e12
    assert ours == pytest.approx(measured, rel=0.15)
    with pytest.raises(Refused, match="read again from a cache of"):
        predicted(mapped(**cache, shape={"footprint_bytes": 8 << 20}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"op": "memory_latency_l1"}, "memory_latency_l1`: profiles hold no latencies"),
        ({"op": "gemm_peak_throttled"}, "no product that ran"),
        ({"op": "fft"}, "`fft` is no product"),
        ({"op": "stream_copy", "shape": {"bytes": "many"}}, "without whole bytes"),
        ({"shape": {"m": 8, "n": 8, "k": 8, "groups": -1}}, "without groups"),
        ({"op": "cache_read_bandwidth"}, "without footprint_bytes"),
        ({"op": "gemm_burn", "shape": {}}, "without n, k"),
        ({"accelerator": "AMD MI50"}, "no accelerator profile"),
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


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metrics": {"time_s": -1.0}}, "`time_s` says -1 s"),
        ({"op": "stream_copy", "dtype": "fp64"}, "neither a time nor a rate"),
        ({"op": {}}, "key `op`"),
    ],
)
def test_rows_that_make_no_sense_are_refused_and_others_go_on(changes: dict[str, Any], reason: str) -> None:
    lines = [Line("rows.jsonl", place, json.dumps(row)) for place, row in enumerate((ROW | changes, ROW))]
    bad, good = KINDS["kernel"].validate(lines)
    assert reason in bad.refused and good.error is not None
    assert kind_of(lines[0]) in ("kernel", None)


def test_the_shipped_rows_are_within_the_errors_that_the_page_states() -> None:
    kind, lines = chosen(list(read_lines(KINDS["kernel"].shipped)))
    assert kind.name == "kernel"
    outcomes = [outcome for outcome in kind.validate(lines) if outcome.error is not None]
    assert len(outcomes) >= 510
    errors = {family: [o.error for o in outcomes if o.row.family == family] for family in ("products", "attention")}
    assert statistics(errors["attention"]).median < 0.04
    assert statistics(errors["products"]).median < 0.11
    later = {"latent attention": 0.17, "mixtures of experts": 0.1, "copies to and from a host": 0.19}  # nothing fitted
    for family, median in later.items():
        found = [o.error for o in outcomes if o.row.family == family]
        assert found and statistics(found).median < median


def test_the_command_lists_them_by_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--kind", "kernel", "--by", "family,library"]) == 0
    assert "by family" in capsys.readouterr().out
