"""Results made by hand for tests of everything that reads one."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from simulator.results.metrics import compare, run_metrics, training_metrics
from simulator.results.result import CriticalPath, DeviceClass, LinkLoad, MemoryUse, Result, Sensitivity, Spans

FORWARD, BACKWARD, SEND, GRADIENTS = range(4)
NAMES = ("forward", "backward", "send forward", "reduce gradients")
GB = 1e9


def schedule(
    stages: int, microbatches: int, forward: int, backward: int
) -> dict[tuple[int, int, int], tuple[int, int]]:
    """Start and end ticks of (kind, stage, microbatch) of a GPipe step with equal stages and free communication."""
    times: dict[tuple[int, int, int], tuple[int, int]] = {}
    for stage in range(stages):
        for micro in range(microbatches):
            ready = times[FORWARD, stage - 1, micro][1] if stage else 0
            free = times[FORWARD, stage, micro - 1][1] if micro else 0
            times[FORWARD, stage, micro] = (max(ready, free), max(ready, free) + forward)
    for stage in reversed(range(stages)):
        for micro in range(microbatches):
            ready = times[BACKWARD, stage + 1, micro][1] if stage < stages - 1 else 0
            free = times[BACKWARD, stage, micro - 1][1] if micro else times[FORWARD, stage, microbatches - 1][1]
            times[BACKWARD, stage, micro] = (max(ready, free), max(ready, free) + backward)
    return times


def pipeline_spans(stages: int, microbatches: int, forward: int = 10**10, backward: int = 2 * 10**10) -> Spans:
    """Spans of that step: a compute and a pipeline lane per stage, sends of 1 ns that start where a forward ends."""
    lanes = tuple((stage, lane) for stage in range(stages) for lane in ("compute", "pipeline"))
    rows, flows, place = [], [], {}
    times = schedule(stages, microbatches, forward, backward)
    for (kind, stage, micro), (start, end) in times.items():
        place[kind, stage, micro] = len(rows)
        rows.append((start, end, 2 * stage, kind, stage, micro))
        if kind == FORWARD and stage < stages - 1:
            rows.append((end, end + 1000, 2 * stage + 1, SEND, stage, micro))
    for stage in range(1, stages):
        flows += [(place[FORWARD, stage - 1, m], place[FORWARD, stage, m]) for m in range(microbatches)]
        flows += [(place[BACKWARD, stage, m], place[BACKWARD, stage - 1, m]) for m in range(microbatches)]
    end = max(row[1] for row in rows)
    rows.append((end, end + forward, 1, GRADIENTS, -1, -1))
    start, stop, lane, name, stage_of, micro_of = (np.array(column) for column in zip(*rows, strict=True))
    return Spans(
        start.astype(np.int64),
        stop.astype(np.int64),
        lane.astype(np.int32),
        name.astype(np.int32),
        stage_of.astype(np.int32),
        micro_of.astype(np.int32),
        lanes,
        NAMES,
        np.array(flows, np.int64).reshape(-1, 2),
    )


def training_result(stages: int = 4, microbatches: int = 8, ranks: int = 48, **changes: Any) -> Result:
    """A feasible step of `stages` classes of `ranks` ranks with everything that a page can show."""
    spans = pipeline_spans(stages, microbatches)
    step = float(spans.end.max()) / 1e12
    busy = 0.03 * microbatches
    breakdown = tuple(
        {
            "compute": 0.8 * busy,
            "exposed_tp": 0.2 * busy,
            "exposed_pp": 0.002 * stage,
            "exposed_dp": 0.01,
            "bubble": step - busy - 0.002 * stage - 0.01,
        }
        for stage in range(stages)
    )
    memory = tuple(_memory(stage, stages, step) for stage in range(stages))
    metrics = training_metrics(
        step_s=step,
        tokens=2048.0 * 48 * microbatches,
        samples=48.0 * microbatches,
        devices=stages * ranks,
        model_flops=120e12 * step * stages * ranks,
        hardware_flops=160e12 * step * stages * ranks,
        peak_flops=312e12,
        breakdown=breakdown,
        ranks=[ranks] * stages,
        peak_memory=max(use.peak for use in memory),
    )
    metrics |= {"energy_j": 400.0 * step * stages * ranks, "cost_usd": 1.1 / 3600 * step * stages * ranks}
    metrics |= run_metrics(metrics, 2048.0 * 48 * microbatches, 300e9)
    published = compare(
        "hardware_flops_per_device", "163 TFLOP/s", metrics["hardware_flops_per_device"], "arXiv:2104.04473 Table 1"
    )
    result = Result(
        kind="training",
        name="gpt-1t on 3,072 A100",
        metrics=metrics,
        breakdown=breakdown,
        spans=spans,
        memory=memory,
        classes=tuple(DeviceClass(f"stage {stage}", ranks, stage * ranks) for stage in range(stages)),
        links=(
            LinkLoad("NIC up", 32, 25 * GB, 5 * GB * step, 0.2, {"reduce gradients": 5 * GB * step}, (0,)),
            LinkLoad("scale-up", 99, 300 * GB, 9 * GB, 0.04, {"forward": 4 * GB, "backward": 5 * GB}, (1,)),
        ),
        critical_path=_critical_path(spans, stages),
        sensitivities=(
            Sensitivity("nic_bandwidth", "+10 %", step * 0.999, 0.001),
            Sensitivity("flop_rate", "+10 %", step * 0.92, 0.08),
            Sensitivity("latency", "-10 %", step * 1.002, -0.002),
        ),
        comparisons=(published,),
        warnings=("training.overlap_pipeline has no effect on one stage",),
        assumptions=("precision is not given: fp16 (megatron-lm-2021)", "attention is not given: unfused (megatron)"),
        provenance={
            "version": "0.1.0",
            "seed": 0,
            "scenario": "0f3a" * 4,
            "fold": "tiers",
            "devices": stages * ranks,
            "classes": stages,
            "operations": len(spans.start),
            "events": 3 * len(spans.start),
        },
        scenario={"version": 1, "name": "gpt-1t on 3,072 A100"},
    )
    return replace(result, **changes)


def _critical_path(spans: Spans, stages: int) -> CriticalPath:
    """A path of two operations, the last pass and what comes after it."""
    operations = np.argsort(spans.end, kind="stable")[-2:]
    parts = {"compute": float(spans.end[operations[0]]) / 1e12}
    rest = {"exposed_dp": float(spans.end[operations[1]]) / 1e12 - parts["compute"]}
    by_class = (parts | rest, *({} for _ in range(stages - 1)))
    name = NAMES[spans.name[operations[0]]]
    by_operation = {name: parts["compute"], "reduce gradients": rest["exposed_dp"]}
    by_link, by_roof = {"NIC up": rest["exposed_dp"]}, {"compute": parts["compute"]}
    return CriticalPath(parts | rest, by_class, operations.astype(np.int64), by_operation, by_link, by_roof)


def _memory(stage: int, stages: int, step: float) -> MemoryUse:
    kinds = {
        "parameters": 5.2 * GB,
        "gradients": 5.2 * GB,
        "optimizer": 31.5 * GB,
        "activations": (stages - stage) * GB,
        "buffers": 1 * GB,
    }
    peak = sum(kinds.values())
    ticks = int(step * 1e12)
    level = np.array([peak - kinds["activations"], peak, peak - kinds["activations"]])
    return MemoryUse(stage, 80 * GB, peak, kinds, np.array([0, ticks // 3, ticks * 9 // 10]), level)


def out_of_memory() -> Result:
    """The same step on devices too small for it."""
    result = training_result()
    memory = tuple(replace(use, capacity=40 * GB) for use in result.memory)
    return replace(result, memory=memory, feasible=False)


def assert_same(left: Result, right: Result) -> None:
    """Equal in every field, columns and their types included."""
    assert np_free(left) == np_free(right)
    for one, other in zip(columns(left), columns(right), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def columns(result: Result) -> list[np.ndarray[Any, Any]]:
    """All arrays of a Result."""
    spans = result.spans
    own = [spans.start, spans.end, spans.lane, spans.name, spans.stage, spans.microbatch, spans.flows]
    own += [result.critical_path.operations, result.step_times]
    return own + [column for use in result.memory for column in (use.time, use.level)]


def np_free(result: Result) -> list[Any]:
    """Everything of a Result but its arrays."""
    memory = [(use.device_class, use.capacity, use.peak, use.at_peak) for use in result.memory]
    columns = ("spans", "memory", "critical_path", "step_times")
    own = (field.name for field in fields(Result) if field.name not in columns)
    path, spans = result.critical_path, result.spans
    tables = [path.seconds, path.by_class, path.by_operation, path.by_link, path.by_roof]
    return [*(getattr(result, name) for name in own), *tables, spans.lanes, spans.names, memory]
