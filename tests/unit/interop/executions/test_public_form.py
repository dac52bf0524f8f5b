"""Public traces, and one made byte by byte from the public schema, without our own writer: read, replayed, written.

Fields by mlcommons/chakra, schema/protobuf/et_def.proto (GlobalMetadata: version 1; Node: id 1, name 2, type 3,
data_deps 5, duration_micros 7, attr 10; AttributeProto: name 1, int64_val 9, bool_val 27), keys by protobuf's encoding:
field << 3 | wire type. Its first node is that of ASTRA-sim's example, an all-reduce of 1 MB on 8 devices.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator import collectives, fabric, units
from simulator.cli import main
from simulator.interop.executions import chakra, formats
from simulator.run.replay import Asked, replay
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

METADATA = bytes.fromhex("07  0a 05") + b"0.0.4"
ALL_REDUCE = (
    bytes.fromhex("40  08 01  12 0a")
    + b"All-Reduce"
    + bytes.fromhex("18 07")  # COMM_COLL_NODE
    + bytes.fromhex("52 0e  0a 09")
    + b"is_cpu_op"
    + bytes.fromhex("d8 01 00")  # false
    + bytes.fromhex("52 0d  0a 09")
    + b"comm_type"
    + bytes.fromhex("48 00")  # ALL_REDUCE
    + bytes.fromhex("52 0f  0a 09")
    + b"comm_size"
    + bytes.fromhex("48 80 80 40")  # 1,048,576
)
UPDATE = (
    bytes.fromhex("22  08 02  12 06")
    + b"update"
    + bytes.fromhex("18 04  2a 01 01  38 fa 01")  # COMP_NODE after 1, 250 microseconds
    + bytes.fromhex("52 0e  0a 09")
    + b"is_cpu_op"
    + bytes.fromhex("d8 01 00")
)
WHOLE = METADATA + ALL_REDUCE + UPDATE
CLUSTER = load_spec(Cluster, "dgx-h100")


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The trace of rank 0 in the working folder."""
    monkeypatch.chdir(tmp_path)
    path = Path("example.0.et")
    path.write_bytes(WHOLE)
    return path


def test_it_is_read(trace: Path) -> None:
    found = formats.read(trace)
    first, second = found.operations
    assert (found.rank, first.name, first.collective, first.size_bytes) == (0, "All-Reduce", "all_reduce", 2.0**20)
    assert (second.name, second.after, second.lane) == ("update", (1,), "compute")
    assert second.duration_s == pytest.approx(250e-6)


def test_its_replay_is_the_all_reduce_and_what_follows(trace: Path) -> None:
    profile = load_spec(CollectiveProfile, CLUSTER.collectives)
    cost = collectives.cost_of("all_reduce", [range(8)], 2**20, fabric.build(CLUSTER), profile)
    played = replay([formats.read(trace)], CLUSTER, Asked(ranks=8))
    assert played.makespan_s == pytest.approx(units.to_seconds(cost.slowest) + 250e-6, rel=1e-9)


def test_what_the_command_writes_reads_back_as_the_same_graph(trace: Path) -> None:
    told = ["replay", str(trace), "--cluster", "dgx-h100", "--ranks", "8", "--chakra", "ours", "--quiet"]
    assert main(told) == 0
    written = sorted(Path().glob("ours.*.et"))
    assert written
    assert written[0].read_bytes().startswith(METADATA)
    graphs = [
        [(one.name, one.after, one.collective, one.size_bytes, one.duration_s) for one in chakra.read(file).operations]
        for file in (trace, written[0])
    ]
    assert graphs[0] == graphs[1]


@pytest.mark.parametrize("end", [len(METADATA) + 5, len(WHOLE) - 1])
def test_cut_anywhere_it_is_refused(trace: Path, end: int, capsys: pytest.CaptureFixture[str]) -> None:
    trace.write_bytes(WHOLE[:end])
    assert main(["replay", str(trace), "--cluster", "dgx-h100"]) == 2
    assert "is no execution trace of Chakra: it ends within a message" in capsys.readouterr().err


# ---- profiles of PyTorch that others published -------------------------------------------------------------------


def event(cat: str, name: str, thread: object, begin: float, length: float, **said: object) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": 0, "tid": thread, "ts": begin, "dur": length, "args": said}


OLD = [
    event("Operator", "enumerate(DataLoader)", "123", 100, 180),
    event("Operator", "aten::to", "123", 200, 60),
    event("Operator", "aten::nll_loss_backward", "456", 340, 70),
    event("Operator", "ProfilerStep#1", "123", 50, 400),
    event("Memcpy", "Memcpy HtoD (Pageable -> Device)", "stream 7", 405, 10, stream=7, correlation=334),
    event("Runtime", "cudaMemcpyAsync", "456", 360, 20, correlation=334),
    event("Memset", "Memset (Device)", "stream 7", 420, 5, stream=7, correlation=40344),
    event("Runtime", "cudaMemsetAsync", "456", 390, 10, correlation=40344),
    event("Kernel", "cunn_ClassNLLCriterion_updateGradInput_kernel", "stream 7", 430, 15, correlation=40348),
    event("Runtime", "cudaLaunchKernel", "456", 405, 5, correlation=40348),
]
"""Times of pytorch/kineto (BSD), tb_plugin/test/test_profiler.py, `test_all_categories`: as before PyTorch 1.12."""
BACKWARD = [
    event("user_annotation", "ProfilerStep#552", 3914, 1666149715033200, 413451),
    event("user_annotation", "## backward ##", 3914, 1666149715287655, 107988),
    event("cpu_op", "autograd::engine::evaluate_function: AddmmBackward0", 24922, 1666149715364322, 145),
    event("cpu_op", "AddmmBackward0", 24922, 1666149715364324, 102),
    event("cpu_op", "aten::mm", 24922, 1666149715364330, 58),
    event("kernel", "cutlass_80_tensorop_s1688gemm_128x128_32x3_nn_align4", 7, 1666149715428509, 45, stream=7),
    event("cuda_runtime", "cudaLaunchKernel", 24922, 1666149715364374, 10),
]
"""Times of facebookresearch/HolisticTraceAnalysis (MIT), tests/data/call_stack/backward_thread.json."""


def own(trace: list[dict[str, Any]], path: Path) -> tuple[list[str], float, float]:
    """(names of what is replayed, measured and replayed microseconds) of a trace."""
    path.write_text(json.dumps({"traceEvents": trace, "distributedInfo": {"rank": 0}}))
    found = formats.read(path)
    played = replay([found], CLUSTER, Asked(measured=True))
    return [one.name[:12] for one in found.operations], 1e6 * found.measured_s, 1e6 * played.makespan_s


@pytest.mark.parametrize(
    ("trace", "names", "length"),
    [
        (OLD, ["Memcpy HtoD ", "Memset (Devi", "cunn_ClassNL"], 40),  # 405 to 445
        (OLD[:4], ["enumerate(Da", "aten::nll_lo"], 310),  # 100 to 410
        (BACKWARD, ["cutlass_80_t"], 45),
        (BACKWARD[:5], ["autograd::en"], 145),
    ],
    ids=["kineto", "kineto, operators", "hta", "hta, operators"],
)
def test_public_profiles_replay_to_their_own_time(
    trace: list[dict[str, Any]], names: list[str], length: float, tmp_path: Path
) -> None:
    found, measured, played = own(trace, tmp_path / "rank-0.json")
    assert found == names
    assert measured == pytest.approx(length, abs=1e-3)
    assert played == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (
            OLD,
            ["the trace marks a step, 400 us by the host's clock; from the first operation to the last it is 40.0 us"],
        ),
        (
            BACKWARD,
            ["the trace marks a step, 413 ms by the host's clock; from the first operation to the last it is 45.0 us"],
        ),
        (
            [*BACKWARD, event("user_annotation", "ProfilerStep#553", 3914, 1666149715446651, 400000)],
            ["the trace marks 2 steps, 813 ms by the host's clock; from the first operation to the last it is 45.0 us"],
        ),
        ([event("gpu_user_annotation", "ProfilerStep#552", 7, 0, 9), BACKWARD[5]], []),
    ],
    ids=["kineto", "hta", "two steps", "the device's mark"],
)
def test_marks_of_steps_are_told_beside_the_operations(
    trace: list[dict[str, Any]], said: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "rank-0.json"
    path.write_text(json.dumps({"traceEvents": trace, "distributedInfo": {"rank": 0}}))
    assert list(formats.read(path).notes) == said
