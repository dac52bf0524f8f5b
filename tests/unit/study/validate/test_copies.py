"""Published copies: what a row stands for, what it takes on the links of its machine, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.interop.rows.jsonl import Line, Refused, read_row
from simulator.interop.rows.kernels import KernelRow
from simulator.interop.rows.network import NetworkRow
from simulator.interop.rows.single.copies import MappedCopy, map_copy, of_kernel
from simulator.run.measured.copies import copied, host_pass
from simulator.study.validate.kernels import validate_kernel_line
from simulator.study.validate.published import kind_of

MB = 1 << 20
ROW: dict[str, Any] = {
    "id": "c1",
    "op": "p2p_copy",
    "source": "test",
    "accelerator_id": "h100-sxm-80gb",
    "size_bytes": 512 * MB,
    "metrics": {"bandwidth_bytes_per_s": 380e9},
}
KERNEL: dict[str, Any] = {
    "id": "c2",
    "op": "copy_host_to_device",
    "source": "test",
    "accelerator": "NVIDIA H100 SXM 80GB",
    "metrics": {"bytes_per_s": 55e9},
}


def mapped(**changes: Any) -> MappedCopy:
    return map_copy(read_row(NetworkRow, ROW | changes))


def rate(found: MappedCopy) -> float:
    """Bytes/s one way."""
    return found.moved / copied(found)[0]


def test_a_copy_between_devices_is_a_send_of_their_library() -> None:
    """0.817 of the 450 GB/s of NVLink 4 (nccl-h100)."""
    found = mapped()
    assert (found.cluster, found.nodes, found.both) == ("dgx-h100", 1, False)
    assert found.measured_s == pytest.approx(512 * MB / 380e9)
    assert rate(found) == pytest.approx(0.817 * 450e9, rel=0.02)
    assert "NCCL" in copied(found)[1]


def test_a_bandwidth_both_ways_is_that_of_both_together_and_links_carry_both_at_once() -> None:
    both = mapped(op="copy_device_to_device_bidir_read")
    assert both.both and both.measured_s == pytest.approx(2 * mapped().measured_s)
    assert copied(both)[0] == pytest.approx(copied(mapped())[0], rel=1e-6)


@pytest.mark.parametrize(
    ("op", "device", "expected"),
    [("host_to_device_copy", "a100-sxm", 31e9), ("h2d_memcpy_ce", "h200-sxm", 63e9), ("copy_d2h", "gh200", 450e9)],
)
def test_a_copy_to_or_from_a_host_has_its_link(op: str, device: str, expected: float) -> None:
    found = mapped(op=op, accelerator_id=device, num_ranks=1)
    assert (found.way, copied(found)[1]) == ("host", "host link")
    assert rate(found) == pytest.approx(expected)


def test_verbs_take_the_way_there_and_back_and_the_rate_of_a_card() -> None:
    """128 reads of 1 MB over 50 GB/s are 2.68 ms; those of 8 bytes the latency of cards and switch, twice."""
    joined = {"num_ranks": 2, "num_nodes": 2, "interconnect": {"inter": "Broadcom Thor2 400 Gb/s"}}
    read: dict[str, Any] = {"op": "rdma_read_batch", "accelerator_id": "mi300x", "params": {"batch_size": 128}} | joined
    large = mapped(**read, size_bytes=MB, metrics={"batch_time_s": 2.78e-3, "bandwidth_bytes_per_s": 48.3e9})
    assert (large.messages, large.measured_s, large.metric) == (128, 2.78e-3, "batch_time_s")
    assert copied(large)[0] == pytest.approx(128 * MB / 50e9, rel=0.01)
    small = mapped(**read, size_bytes=8, metrics={"batch_time_s": 3.6e-5})
    there = mapped(**joined | {"op": "ib_write_lat", "accelerator_id": "mi300x", "size_bytes": 8})
    assert 4e-6 < copied(small)[0] < 8e-6
    assert copied(there)[0] == pytest.approx(copied(small)[0] / 2, rel=0.02)
    assert (there.messages, small.messages) == (1, 128)


def test_a_stream_of_verbs_is_that_of_perftest_where_nothing_is_said() -> None:
    words = {"accelerator_id": None, "accelerator": "p5en EFA 200Gb adapter", "interconnect": {"inter": "EFA 200 Gb/s"}}
    stream = mapped(**words, op="rdma_write_bw", size_bytes=None, metrics={"bandwidth_bytes_per_s": 24.2e9})
    assert (stream.cluster, stream.messages, stream.size_bytes, stream.card) == ("efa-p5en", 128, 65536.0, 25e9)
    assert stream.assumed == ("messages of 64 KiB, 128 in flight",)
    assert rate(stream) == pytest.approx(25e9, rel=0.06)
    cards = mapped(op="rdma_write_bw", interconnect={"inter": "8x400 Gb/s per node"})
    assert cards.card == 50e9


def test_dies_of_a_package_are_devices_of_their_own() -> None:
    one = mapped(op="npu_to_npu_read", accelerator="Ascend 910C (per die)", accelerator_id="ascend-910c")
    whole = mapped(op="npu_to_npu_read", accelerator="Ascend 910C", accelerator_id="ascend-910c")
    assert (one.cluster, whole.cluster) == ("cloudmatrix384-dies", "cloudmatrix384")
    assert rate(whole) == pytest.approx(2 * rate(one), rel=0.02)


def test_a_copy_without_a_size_is_that_of_nvbandwidth() -> None:
    found = mapped(size_bytes=None)
    assert found.size_bytes == 512 * MB and "a copy of 512 MiB" in found.assumed


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"op": "all_reduce"}, "no copy"),
        ({"num_ranks": 8}, "among 8 devices of 1 nodes"),
        ({"num_nodes": 400_000}, "of 400000 nodes"),
        ({"size_bytes": 1e300}, r"1e\+300 bytes"),
        ({"op": "host_to_device_copy", "num_ranks": 2}, "among 2 devices"),
        ({"accelerator_id": None, "accelerator": "PCIe GPU"}, "no cluster of PCIe GPU"),
        ({"size_bytes": None, "metrics": {"latency_s": 1e-6}}, "without `size_bytes`"),
        ({"metrics": {}}, "neither a time nor a bandwidth"),
        ({"metrics": {"time_s": 1e-3, "bandwidth_bytes_per_s": 380e9}}, "quarantined"),
    ],
)
def test_what_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        mapped(**changes)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"op": "rdma_read_bw", "accelerator_id": "a40"}, "no network card"),
        ({"op": "h2d_copy", "accelerator_id": "tpu-v4"}, "no `host_link`"),
    ],
)
def test_links_that_a_machine_lacks_are_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        copied(mapped(**changes))


def test_a_file_of_kernels_holds_copies_too(tmp_path: Path) -> None:
    found = map_copy(of_kernel(read_row(KernelRow, KERNEL | {"shape": {"bytes": MB}})))
    assert (found.cluster, found.way, found.size_bytes) == ("dgx-h100", "host", float(MB))
    outcome = validate_kernel_line(Line("rows.jsonl", 1, json.dumps(KERNEL)))
    assert outcome.error == pytest.approx(55 / 63 - 1)
    assert outcome.row.family == "copies to and from a host"
    assert outcome.assumed == ("a copy of 512 MiB",)
    kinds = [kind_of(Line("rows.jsonl", 1, json.dumps(row))) for row in (KERNEL, ROW, KERNEL | {"num_ranks": 1})]
    assert kinds == ["kernel", "kernel", "network"]


def test_a_host_passes_over_its_memory_at_its_peak() -> None:
    row = read_row(KernelRow, KERNEL | {"op": "cpu_stream_triad", "metrics": {"bytes_per_s": 450e9}})
    measured, ours, _ = host_pass(row)
    assert ours / measured == pytest.approx(450 / 614)
    with pytest.raises(Refused, match=r"gb200-nvl72 has no `cpu\.memory_bandwidth`"):
        host_pass(row.model_copy(update={"accelerator": "NVIDIA Grace (GB200 node)"}))
