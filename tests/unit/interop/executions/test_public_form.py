"""A trace made byte by byte from the public schema, without our own writer: it is read, replays, and is written again.

Fields by mlcommons/chakra, schema/protobuf/et_def.proto (GlobalMetadata: version 1; Node: id 1, name 2, type 3,
data_deps 5, duration_micros 7, attr 10; AttributeProto: name 1, int64_val 9, bool_val 27), keys by protobuf's encoding:
field << 3 | wire type. Its first node is that of ASTRA-sim's example, an all-reduce of 1 MB on 8 devices.
"""

from pathlib import Path

import pytest

from simulator import collectives, fabric, units
from simulator.cli import main
from simulator.interop.executions import chakra, formats
from simulator.run.replay import Asked, replay
from simulator.specs.collectives import CollectiveProfile
from simulator.specs.hardware import Cluster
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
