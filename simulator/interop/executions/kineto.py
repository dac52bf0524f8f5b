"""Traces of PyTorch's profiler (Kineto, Chrome's format): kernels of a rank in, and out for Holistic Trace Analysis.

In: what ran on the device (`kernel`, `gpu_memcpy`, `gpu_memset`), or where there is none the outermost operators of the
CPU. A stream runs its operations in order. Beside that an operation waits for the one of another stream that ended last
before it began; the time that is then still left is the host's, and stays as it is. So a replay that changes nothing
gives the step as it was measured; what other dependencies would do is not known from a trace.
"""

import gzip
import io
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator import units
from simulator.errors import InputError, Problem
from simulator.interop.executions.graph import MOST_BYTES, MOST_NODES, Execution, Operation, ordered, read_bounded

_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
_HOST = ("cpu_op", "operator")
"""Categories, in small letters: before PyTorch 1.12 they were `Kernel`, `Memcpy`, `Memset` and `Operator`."""
_STEP = "ProfilerStep#"
_SIZES = {
    "float": 4,
    "float32": 4,
    "int": 4,
    "half": 2,
    "float16": 2,
    "bfloat16": 2,
    "double": 8,
    "long": 8,
    "byte": 1,
    "float8_e4m3fn": 1,
}
_OPERATIONS = (
    ("reducescatter", "reduce_scatter"),
    ("reduce_scatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("broadcast", "broadcast"),
    ("alltoall", "all_to_all"),
    ("all_to_all", "all_to_all"),
)
_ZIPPED = b"\x1f\x8b"


def read(path: str | Path, rank: int | None = None) -> Execution:
    """The execution of a rank; InputError for a file that is too large or is no such trace."""
    path = Path(path)
    data = _unzipped(read_bounded(path), path)
    try:
        said = json.loads(data)
        events = said["traceEvents"] if isinstance(said, dict) else said
        about = said.get("distributedInfo", {}) if isinstance(said, dict) else {}
        chosen = _chosen(events)
        number = rank if rank is not None else int(about.get("rank", 0))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"is no trace of PyTorch's profiler: {str(error)[:120] or type(error).__name__}"
        raise InputError(Problem(message, file=str(path))) from error
    if not chosen:
        hint = "record with ProfilerActivity.CUDA, or CPU"
        raise InputError(Problem("has neither kernels nor operators", file=str(path), hint=hint))
    operations = list(_operations(chosen))
    begin = min(float(event["ts"]) for event in chosen)
    end = max(float(event["ts"]) + float(event["dur"]) for event in chosen)
    sorted_ = ordered(operations, str(path), lambda one: one.id)
    return Execution(path.name, number, sorted_, 1e-6 * (end - begin), _steps(events, end - begin))


def _steps(events: Sequence[Any], span_us: float) -> tuple[str, ...]:
    """What the marks of steps say beside the operations: the host's clock, with what it did before and after them."""
    marks = {
        str(one["name"]): (float(one["ts"]), float(one["ts"]) + float(one["dur"]))
        for one in events
        if isinstance(one, dict) and one.get("ph") == "X" and {"ts", "dur"} <= one.keys() and _marks_step(one)
        if not str(one.get("cat")).lower().startswith("gpu")
    }
    if not marks:
        return ()
    length = max(end for _, end in marks.values()) - min(begin for begin, _ in marks.values())
    steps = "a step" if len(marks) == 1 else f"{len(marks):,} steps"
    marked, span = (units.format(1e-6 * one, "time") for one in (length, span_us))
    return (
        f"the trace marks {steps}, {marked} by the host's clock; from the first operation to the last it is {span}",
    )


def _unzipped(data: bytes, path: Path) -> bytes:
    if not data.startswith(_ZIPPED):
        return data
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            found = stream.read(8 * MOST_BYTES + 1)
    except (OSError, EOFError) as error:
        raise InputError(Problem(f"is no whole gzip file: {error}", file=str(path))) from error
    if len(found) > 8 * MOST_BYTES:
        raise InputError(
            Problem(f"holds more than {8 * MOST_BYTES / 1e6:,.0f} MB", file=str(path), hint="cut it to one step")
        )
    return found


def _chosen(events: Any) -> list[Mapping[str, Any]]:
    """What ran on the device, or else the outermost operators of the CPU, by begin."""
    if not isinstance(events, list):
        raise TypeError("`traceEvents` is no list")
    whole = [one for one in events if isinstance(one, dict) and one.get("ph") == "X" and "ts" in one and "dur" in one]
    for one in whole:
        if not (-1e18 < float(one["ts"]) < 1e18 and 0 <= float(one["dur"]) < 1e15):
            raise ValueError(f"an event lasts {str(one['dur'])[:20]} from {str(one['ts'])[:20]} on")
    device = [one for one in whole if str(one.get("cat")).lower() in _DEVICE]
    found: list[Mapping[str, Any]] = list(_outermost(whole))
    if device:
        found = sorted(device, key=lambda one: float(one["ts"]))
    if len(found) > MOST_NODES:
        raise ValueError(f"it has more than {MOST_NODES:,} operations")
    return found


def _outermost(events: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Operators of the CPU that lie in no other one of their thread."""
    until: dict[Any, float] = {}
    hosts = (one for one in events if str(one.get("cat")).lower() in _HOST and not _marks_step(one))
    for one in sorted(hosts, key=lambda one: (float(one["ts"]), -float(one["dur"]))):
        thread, begin = str(one.get("tid")), float(one["ts"])
        if begin >= until.get(thread, float("-inf")):
            until[thread] = begin + float(one["dur"])
            yield one


def _marks_step(event: Mapping[str, Any]) -> bool:
    """Whether it is no operator but the mark of a step, which was among the operators once."""
    return str(event.get("name", "")).startswith(_STEP)


def _operations(events: Sequence[Mapping[str, Any]]) -> Iterator[Operation]:
    """Operations with what they wait for, as their times say."""
    ends: list[tuple[float, int]] = sorted((float(one["ts"]) + float(one["dur"]), i) for i, one in enumerate(events))
    moments = [end for end, _ in ends]
    last: dict[str, int] = {}
    origin = float(events[0]["ts"])
    for i, event in enumerate(events):
        begin, lane = float(event["ts"]), _lane(event)
        waits = {last[lane]} if lane in last else set()
        place = bisect_right(moments, begin)
        if place and ends[place - 1][1] < i:
            waits.add(ends[place - 1][1])
        done = max((float(events[one]["ts"]) + float(events[one]["dur"]) for one in waits), default=origin)
        one = Operation(i, str(event.get("name", "")), lane, tuple(sorted(waits)), 1e-6 * float(event["dur"]))
        one.delay_s = max(1e-6 * (begin - done), 0.0)
        last[lane] = i
        _communication(one, event.get("args") or {})
        yield one


def _lane(event: Mapping[str, Any]) -> str:
    stream, thread = (event.get("args") or {}).get("stream"), str(event.get("tid"))
    if stream is not None:
        return f"stream {stream}"
    return thread if thread.startswith("stream ") else f"thread {thread}"


def _communication(one: Operation, said: Mapping[str, Any]) -> None:
    """What a kernel of NCCL or RCCL asks for, as PyTorch writes beside it."""
    name = one.name.lower()
    if "nccl" not in name and "Collective name" not in said:
        return
    word = str(said.get("Collective name", "")).lower().lstrip("_") or name
    one.collective = next((found for key, found in _OPERATIONS if key in word or key in name), "")
    element = _SIZES.get(str(said.get("dtype", "")).lower(), 2)
    most = max(_whole(said, "In msg nelems"), _whole(said, "Out msg nelems"))
    one.size_bytes, one.group = float(most * element), str(said.get("Process Group Name", ""))
    one.members = _whole(said, "Group size")
    listed = re.findall(r"\d+", str(said.get("Process Group Ranks", "")))
    one.ranks = tuple(int(rank[:9]) for rank in listed[:65536])


def _whole(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name, 0)
    return max(int(value), 0) if isinstance(value, int | float) and abs(value) < 1e15 else 0


# ---- out ----------------------------------------------------------------------------------------------------------

_KERNELS = {
    "all_reduce": "AllReduce",
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "all_to_all": "SendRecv",
    "send": "SendRecv",
    "receive": "SendRecv",
}


def written(execution: Execution, times: Sequence[tuple[float, float]], world: int) -> str:
    """A rank's trace: each operation as a kernel on its stream, with the launch that it correlates with.

    `times` are (begin, end) in seconds of each operation, in their order.
    """
    lanes = {name: number for number, name in enumerate(dict.fromkeys(one.lane for one in execution.operations))}
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": execution.rank, "tid": 0, "ts": 0, "args": {"name": "python"}}
    ]
    end = max((stop for _, stop in times), default=0.0)
    step = {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1000 + execution.rank, "tid": 1}
    events.append({**step, "ts": 0, "dur": 1e6 * end, "args": {"External id": 1}})
    for number, (one, (begin, stop)) in enumerate(zip(execution.operations, times, strict=True), start=1):
        kernel = _KERNELS.get(one.collective)
        name = f"ncclDevKernel_{kernel}({one.name})" if kernel else one.name or "kernel"
        shared = {"correlation": number, "External id": number}
        launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1000 + execution.rank, "tid": 1}
        events.append({**launch, "ts": 1e6 * begin, "dur": 0.0, "args": shared})
        on = {"device": execution.rank, "stream": 7 + lanes[one.lane], **shared}
        place = {"ph": "X", "cat": "kernel", "pid": execution.rank, "tid": 7 + lanes[one.lane]}
        events.append({**place, "name": name, "ts": 1e6 * begin, "dur": 1e6 * (stop - begin), "args": on})
    about = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": execution.rank, "world_size": world}}
    return json.dumps({**about, "traceEvents": events}, separators=(",", ":"))
