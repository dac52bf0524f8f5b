"""Chakra's and Kineto's traces: in, out, replayed on a cluster, and files that do not hold."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from simulator.cli import main
from simulator.errors import InputError
from simulator.interop.executions import chakra, formats, kineto, wire
from simulator.interop.executions.graph import MOST_BYTES, Execution, Operation, ordered
from simulator.run.replay import Asked, replay
from simulator.specs.hardware import Cluster
from simulator.specs.resolve import load_spec

CLUSTER = load_spec(Cluster, "dgx-h100")
MICROSECOND = 1e-6


def step(rank: int = 0) -> Execution:
    """Forward, a sum beside the backward pass, the update."""
    operations = (
        Operation(1, "forward", duration_s=100 * MICROSECOND),
        Operation(2, "backward", after=(1,), duration_s=200 * MICROSECOND),
        Operation(3, "sum", "communication", (1,), collective="all_reduce", size_bytes=2.0**26, group="dp"),
        Operation(4, "update", after=(2, 3), duration_s=50 * MICROSECOND),
    )
    return Execution(f"trace.{rank}.et", rank, operations)


def test_what_is_written_reads_back_the_same(tmp_path: Path) -> None:
    path = tmp_path / "trace.3.et"
    path.write_bytes(chakra.encoded(step(3)))
    found = chakra.read(path)
    assert found.rank == 3
    for one, other in zip(found.operations, step().operations, strict=True):
        assert (one.id, one.name, one.after, one.collective) == (other.id, other.name, other.after, other.collective)
        assert (one.duration_s, one.size_bytes, one.group) == pytest.approx(
            (other.duration_s, other.size_bytes, other.group)
        )


def test_fields_have_the_numbers_and_names_of_the_schema() -> None:
    """Of et_def.proto: id 1, name 2, type 3 (COMP 4, COMM_COLL 7), data_deps 5, duration_micros 7, attr 10."""
    head, *nodes = wire.messages(chakra.encoded(step()))
    assert list(wire.fields(head)) == [(1, wire.BYTES, b"0.0.4")]
    numbers = [[number for number, _, _ in wire.fields(node) if number != 10] for node in nodes]
    assert numbers == [[1, 2, 3, 7], [1, 2, 3, 5, 7], [1, 2, 3, 5, 7], [1, 2, 3, 5, 7]]
    names = {
        next(v for f, _, v in wire.fields(value) if f == 1)
        for n, _, value in wire.fields(nodes[2])
        if n == 10 and isinstance(value, bytes)
    }
    assert names == {b"is_cpu_op", b"comm_size", b"comm_type", b"pg_name"}


def json_form() -> dict[str, Any]:
    """A small graph in protobuf's JSON form."""
    return {
        "metadata": {"version": "0.0.4"},
        "nodes": [
            {"id": "1", "name": "a", "type": "COMP_NODE", "attr": [{"name": "num_ops", "int64Val": "1000000000000"}]},
            {
                "id": "2",
                "name": "b",
                "type": "COMM_COLL_NODE",
                "dataDeps": ["1"],
                "attr": [{"name": "comm_size", "int64_val": 1048576}, {"name": "comm_type", "int64_val": 0}],
            },
            {"id": "3", "name": "c", "type": 4, "ctrl_deps": [2], "duration_micros": 7},
        ],
    }


def test_the_json_form_is_read_with_either_spelling(tmp_path: Path) -> None:
    (tmp_path / "t.1.json").write_text(json.dumps(json_form()))
    found = formats.read(tmp_path / "t.1.json")
    assert found.rank == 1
    assert [(one.collective, one.after) for one in found.operations] == [("", ()), ("all_reduce", (1,)), ("", (2,))]
    assert found.operations[0].flops == 1e12
    assert found.operations[2].duration_s == pytest.approx(7e-6)


def test_a_replay_is_the_longest_path_of_its_graph() -> None:
    sums = replay([step()], CLUSTER, Asked(ranks=8)).busy_s["all_reduce"]
    found = replay([step()], CLUSTER, Asked(ranks=8))
    assert sums > 200 * MICROSECOND  # longer than the backward pass
    assert found.makespan_s == pytest.approx(150 * MICROSECOND + sums)
    assert found.exposed_s == pytest.approx(sums - 200 * MICROSECOND)


def test_ranks_meet_in_their_collectives() -> None:
    slow = step(1)
    slow.operations[0].duration_s *= 3
    one, two = replay([step()], CLUSTER, Asked(ranks=2)), replay([step(), slow], CLUSTER)
    assert two.makespan_s == pytest.approx(one.makespan_s + 200 * MICROSECOND)
    assert two.times[0][2] == two.times[1][2]


def test_a_faster_network_helps_what_is_exposed_and_more_ranks_do_not() -> None:
    times = [replay([step()], CLUSTER, Asked(8, factor)).makespan_s for factor in (0.5, 1, 2, 4)]
    assert times == sorted(times, reverse=True)
    assert times[0] > times[2]
    assert replay([step()], CLUSTER, Asked(2)).makespan_s < replay([step()], CLUSTER, Asked(8)).makespan_s


def test_one_trace_without_groups_stands_for_all_devices() -> None:
    """Its collectives are not free, and a note says whom they join."""
    alone, asked = replay([step()], CLUSTER), replay([step()], CLUSTER, Asked(CLUSTER.devices))
    assert alone.makespan_s == asked.makespan_s > 0
    assert alone.ranks == CLUSTER.devices
    assert any("groups are not stated" in note for note in alone.notes)
    assert not asked.notes


def test_messages_wait_for_their_other_end() -> None:
    send = Execution(
        "a",
        0,
        (
            Operation(1, "x", duration_s=1e-3),
            Operation(2, "s", "send", (1,), collective="send", peer=1, size_bytes=1e6),
        ),
    )
    receive = Execution(
        "b",
        1,
        (
            Operation(1, "r", "receive", collective="receive", peer=0, size_bytes=1e6),
            Operation(2, "y", after=(1,), duration_s=1e-3),
        ),
    )
    found = replay([send, receive], CLUSTER)
    assert found.makespan_s > 2e-3
    assert found.times[1][0][1] == found.times[0][1][1]


# ---- the profiler ---------------------------------------------------------------------------------------------------


def profile() -> dict[str, Any]:
    """Two streams of kernels with gaps, as the profiler writes them."""

    def kernel(name: str, stream: int, begin: float, length: float, **more: Any) -> dict[str, Any]:
        return {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": stream,
            "ts": begin,
            "dur": length,
            "args": {"stream": stream, **more},
        }

    said = {"Collective name": "allreduce", "In msg nelems": 1 << 22, "dtype": "BFloat16", "Group size": 8}
    return {
        "distributedInfo": {"rank": 2, "world_size": 8},
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0.0, "dur": 5.0},
            kernel("gemm", 7, 1000.0, 300.0),
            kernel("gelu", 7, 1310.0, 20.0),
            kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 1315.0, 90.0, **said),
            kernel("gemm", 7, 1335.0, 250.0),
            kernel("adam", 7, 1600.0, 40.0),
            {"ph": "i", "name": "mark", "ts": 1.0},
        ],
    }


@pytest.mark.parametrize("zipped", [False, True])
def test_a_profile_replays_to_its_own_time(tmp_path: Path, zipped: bool) -> None:
    text = json.dumps(profile()).encode()
    path = tmp_path / ("rank.json.gz" if zipped else "rank.json")
    path.write_bytes(gzip.compress(text) if zipped else text)
    found = formats.read(path)
    assert (found.rank, len(found.operations)) == (2, 5)
    played = replay([found], CLUSTER, Asked(measured=True))
    assert found.measured_s == pytest.approx(640 * MICROSECOND)
    assert played.makespan_s == pytest.approx(found.measured_s, rel=0.05)
    assert played.times[0][4] == pytest.approx((600 * MICROSECOND, 640 * MICROSECOND))


def test_communication_of_a_profile_is_priced_for_its_group(tmp_path: Path) -> None:
    (tmp_path / "rank.json").write_text(json.dumps(profile()))
    found = formats.read(tmp_path / "rank.json")
    sums = next(one for one in found.operations if one.collective)
    assert (sums.collective, sums.size_bytes, sums.members) == ("all_reduce", 2.0**23, 8)
    few, many = (
        replay([found], load_spec(Cluster, "dgx-h100"), Asked(ranks)).busy_s["all_reduce"] for ranks in (None, 2)
    )
    assert few > many > 0


def test_operators_of_the_cpu_stand_in_where_there_is_no_device(tmp_path: Path) -> None:
    def operator(name: str, begin: float, length: float) -> dict[str, Any]:
        return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": begin, "dur": length}

    events = [operator("linear", 0, 100), operator("addmm", 10, 80), operator("relu", 110, 20)]
    (tmp_path / "cpu.json").write_text(json.dumps({"traceEvents": events}))
    found = formats.read(tmp_path / "cpu.json")
    assert [one.name for one in found.operations] == ["linear", "relu"]
    assert replay([found], CLUSTER).makespan_s == pytest.approx(130 * MICROSECOND)


def test_what_is_written_has_what_holistic_trace_analysis_reads(tmp_path: Path) -> None:
    """Ranks, kernels on streams that correlate with a launch, steps, NCCL's kernels by their name; and we read it."""
    played = replay([step()], CLUSTER, Asked(8))
    said = json.loads(kineto.written(step(), played.times[0], 8))
    assert said["distributedInfo"] == {"backend": "nccl", "rank": 0, "world_size": 8}
    events = [one for one in said["traceEvents"] if one["ph"] == "X"]
    assert all({"cat", "name", "pid", "tid", "ts", "dur", "args"} <= set(one) for one in events)
    kernels = [one for one in events if one["cat"] == "kernel"]
    launches = {one["args"]["correlation"] for one in events if one["cat"] == "cuda_runtime"}
    assert {one["args"]["correlation"] for one in kernels} == launches
    assert sum(one["name"].startswith("nccl") for one in kernels) == 1
    assert any(one["name"] == "ProfilerStep#0" for one in events)
    (tmp_path / "rank-0.json").write_text(json.dumps(said))
    again = formats.read(tmp_path / "rank-0.json")
    assert again.measured_s == pytest.approx(played.makespan_s, rel=1e-6)


def test_holistic_trace_analysis_counts_what_was_written(tmp_path: Path) -> None:
    """Of 350 microseconds 350 compute, and the sum lies beside them."""
    analysis = pytest.importorskip("hta.trace_analysis", reason="Holistic Trace Analysis is not installed")
    played = replay([step()], CLUSTER, Asked(8))
    (tmp_path / "rank-0.json").write_text(kineto.written(step(), played.times[0], 8))
    told = analysis.TraceAnalysis(trace_dir=str(tmp_path)).get_temporal_breakdown(visualize=False).iloc[0]
    busy = told["compute_time(us)"] + told["non_compute_time(us)"]
    assert told["compute_time(us)"] == pytest.approx(350, abs=4)
    assert busy == pytest.approx(1e6 * played.makespan_s, abs=4)


# ---- files that do not hold -----------------------------------------------------------------------------------------


def bad(change: str) -> bytes:
    """A graph in which something is wrong."""
    said = json_form()
    if change == "missing parent":
        said["nodes"][1]["dataDeps"] = [77]
    elif change == "circle":
        said["nodes"][0]["dataDeps"] = [3]
    elif change == "version":
        said["metadata"]["version"] = "7.2"
    elif change == "twice":
        said["nodes"][2]["id"] = 1
    elif change == "negative":
        said["nodes"][0]["attr"][0]["int64Val"] = "-4"
    elif change == "no nodes":
        said["nodes"] = []
    elif change == "type":
        said["nodes"][0]["type"] = "DANCE_NODE"
    return json.dumps(said).encode()


FILES = {
    "missing parent": (bad("missing parent"), "operation 2 (`b`) waits for 77, which is not there"),
    "circle": (bad("circle"), "wait for each other in a circle: 1 -> 3 -> 2 -> 1"),
    "version": (bad("version"), "is of version `7.2` of Chakra's schema; versions 0.x and 1.x are read"),
    "twice": (bad("twice"), "two operations have the number 1"),
    "negative": (bad("negative"), "`num_ops` of a node is -4"),
    "no nodes": (bad("no nodes"), "has no operations"),
    "type": (bad("type"), "is no execution trace of Chakra"),
    "empty": (b"", "is empty"),
    "zeros": (bytes(1000), "two operations have the number 0"),
    "noise": (bytes(range(256)) * 4, "is no execution trace of Chakra"),
    "cut": (chakra.encoded(step())[:-3], "it ends within a message"),
    "cut gzip": (gzip.compress(json.dumps(profile()).encode())[:-20], "is no whole gzip file"),
    "list": (b"[1, 2, 3]", "has neither kernels nor operators"),
    "nested": (b"[" * 100_000, "is no trace of PyTorch's profiler"),
    "times": (
        b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": "x", "dur": 1}]}',
        "is no trace of PyTorch's profiler",
    ),
    "endless": (b'{"traceEvents": [{"ph": "X", "cat": "kernel", "ts": 1, "dur": 1e300}]}', "an event lasts"),
}


@pytest.mark.parametrize("name", list(FILES))
def test_a_file_that_does_not_hold_gives_one_message(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content, message = FILES[name]
    (tmp_path / "trace.0.et").write_bytes(content)
    assert main(["replay", str(tmp_path / "trace.0.et"), "--cluster", "dgx-h100"]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("begin", [b"", b"{", b"[", b"\x08\x01"])
def test_a_hostile_file_of_100_mb_is_refused_unread(begin: bytes, tmp_path: Path) -> None:
    path = tmp_path / "huge.et"
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(100_000_000)
    with pytest.raises(InputError, match="has 100 MB, more than the 67 MB that are read; cut the trace to one step"):
        formats.read(path)


def test_a_gzip_bomb_stops_at_its_limit(tmp_path: Path) -> None:
    (tmp_path / "bomb.json.gz").write_bytes(gzip.compress(b" " * (8 * MOST_BYTES + 10), compresslevel=1))
    with pytest.raises(InputError, match="holds more than"):
        formats.read(tmp_path / "bomb.json.gz")


def test_a_long_chain_is_ordered_without_recursion() -> None:
    chain = [Operation(i, "", after=(i - 1,) if i else ()) for i in range(20_000)]
    assert [one.id for one in ordered(chain[::-1], "f", lambda one: -one.id)] == list(range(20_000))


def test_two_traces_of_one_rank_and_too_many_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="two traces are of rank 0"):
        replay([step(), step()], CLUSTER)
    with pytest.raises(InputError, match="ranks do not fit"):
        replay([step()], CLUSTER, Asked(ranks=1_000_000))


def test_the_command_reads_plays_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for rank in (0, 1):
        files.append(str(tmp_path / f"trace.{rank}.et"))
        Path(files[-1]).write_bytes(chakra.encoded(step(rank)))
    out = ["--chakra", str(tmp_path / "again"), "--kineto", str(tmp_path), "--json", "-"]
    assert main(["replay", *files, "--cluster", "dgx-h100", *out]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["ranks"], figures["operations"]) == (2, 8)
    assert (tmp_path / "again.1.et").read_bytes() == Path(files[1]).read_bytes()
    assert json.loads((tmp_path / "rank-1.json").read_text())["distributedInfo"]["rank"] == 1
    assert main(["replay", files[0], "--cluster", "dgx-h100", "--network", "2"]) == 0
    assert "communication alone" in capsys.readouterr().out


def test_a_simulated_step_is_written_rank_by_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each kind of rank has a trace as long as the step, which replays to it."""
    result = str(tmp_path / "result.json")
    assert main(["run", "quickstart", "--kineto", str(tmp_path), "--json", result, "--quiet"]) == 0
    step_s = json.loads(Path(result).read_text())["metrics"]["step_time_s"]
    files = sorted(tmp_path.glob("rank-*.json"))
    assert len(files) > 1
    ends = []
    for file in files:
        found = formats.read(file)
        assert any(event["name"].startswith("nccl") for event in json.loads(file.read_text())["traceEvents"])
        assert replay([found], CLUSTER, Asked(measured=True)).makespan_s == pytest.approx(found.measured_s, rel=0.05)
        ends.append(
            max(event["ts"] + event["dur"] for event in json.loads(file.read_text())["traceEvents"] if "dur" in event)
        )
    assert max(ends) == pytest.approx(1e6 * step_s, rel=1e-6)
    assert main(["run", "serving/quickstart", "--kineto", str(tmp_path)]) == 2
    assert "--kineto writes traces of ranks that train" in capsys.readouterr().err
