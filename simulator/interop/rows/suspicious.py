"""Rows that contradict themselves or physics: the one place that says which are set aside.

A row is quarantined, not used, where what it says cannot all be true:

* two of its figures stand for times that differ by more than `APART` (step time and tokens a second; FLOPs and time);
* it is faster than the peak that it states, in the 16 bits that the peak is of: its rate of FLOPs, its MFU, or the six
  FLOPs a parameter and token of its model (arXiv:2001.08361, section 2.1) over its time: four where only adapters are
  trained, whose products need no gradient of the model's weights, and two more where all is computed again;
* a part is more than the whole: output tokens than all tokens, a first token after the request, all later tokens;
* rows of one machine and model that differ in the length of the prompt alone say that later tokens were read faster
  than those before them by more than `LATER`: each looks back at more. The shortest prompt counts for nothing here, as
  it holds what is set up, and the filling of several cards.

Who measured, and how far the simulator is from it, plays no part. Such rows are refused by every command that reads
rows, with the reason behind `MARK`, and listed with the other refusals.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from simulator import units
from simulator.interop.rows.jsonl import Line, Refused, parse_line

MARK = "quarantined: "
"""How the reason of such a row begins."""
APART = 1.1
"""Ratio of two times from which they cannot both be the row's: published figures are rounded to two or three digits."""
MORE = 1.02
"""Ratio from which a part is more than the whole."""
WHOLE = 1.2
"""The same of the mean time of later tokens times their number, over the mean time of a request: means of unequal
requests do not multiply."""
LATER = 1.5
"""Ratio of seconds a token from which a later part of a prompt cannot have been read so much faster."""
ALONE = "single_stream_prefill"
"""Kind of rows of one prompt after the other."""
OWN = ("id", "input_len", "metrics", "notes", "source_ref", "url")
"""Keys of a row that may differ where the machine and the model are the same."""
NARROW = ("fp8", "fp4", "int8")
"""Words of formats that are faster than the peak in 16 bits."""


def check_training(row: Any) -> None:
    """Refused where a row of training (`rows.training.Row`) cannot be true."""
    _refuse(_training(row))


def check_serving(row: Any) -> None:
    """Refused where a row of serving (`rows.serving.ServingRow`) cannot be true."""
    _refuse(_serving(row.metrics, row.output_len))


def check_timed(metrics: Mapping[str, float | None], work: Mapping[str, float]) -> None:
    """Refused where rates of a kernel or collective are not its work over its time. `work` is the amount of which each
    rate, by its key in `metrics`, is a second's."""
    _refuse(_timed(metrics, work))


def contradicted_lines(lines: Sequence[Line]) -> dict[int, str]:
    """`contradicted` of lines of a file; those that cannot be read contradict none."""
    found = []
    for line in lines:
        try:
            found.append(parse_line(line))
        except Refused:
            found.append({})
    return contradicted(found)


def contradicted(rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Reasons for which rows are set aside that others of the same rows contradict, by place; rows as they are written.

    Those of prompts that one machine reads one by one: all of a machine and model, as none says which are wrong.
    """
    alike: dict[str, list[tuple[float, float, int]]] = {}
    for place, row in enumerate(rows):
        metrics = row.get("metrics")
        size = _positive(row.get("input_len"))
        rate = _positive(metrics.get("input_tokens_per_s")) if isinstance(metrics, Mapping) else 0.0
        if row.get("kind") == ALONE and size and rate:
            same = {key: value for key, value in row.items() if key not in OWN}
            alike.setdefault(json.dumps(same, sort_keys=True), []).append((size, size / rate, place))
    return {place: reason for group in alike.values() if (reason := _faster(sorted(group))) for *_, place in group}


def _faster(group: Sequence[tuple[float, float, int]]) -> str:
    """Why prompts of a machine contradict each other, as (tokens, seconds, place) from the shortest; empty if not."""
    longer = [(before, later) for before, later in pairwise(group) if later[0] > before[0]]
    each = [(after - start) / (end - begin) for (begin, start, _), (end, after, _) in longer]
    for (first, second), ((begin, *_), (end, *_)) in zip(pairwise(each), longer[1:], strict=True):
        if first > LATER * second:
            took = f"took {1e3 * second:.3g} ms each, those before {1e3 * first:.3g}"
            return f"tokens {begin + 1:g} to {end:g} of a prompt {took}"
    return ""


def _positive(value: Any) -> float:
    """A number above zero; zero for anything else."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0


def _refuse(reasons: Iterator[str]) -> None:
    if reason := next(reasons, ""):
        raise Refused(MARK + reason)


def _training(row: Any) -> Iterator[str]:
    times = _step_times(row)
    if times and max(times.values()) > APART * min(times.values()):
        yield "its figures are of different steps: " + ", ".join(f"{name} {s:.3g} s" for name, s in times.items())
    if (row.mfu or 0.0) > 1.0:
        yield f"an MFU of {row.mfu:.2f}"
    peak = row.peak_flops_bf16
    if peak is None or any(word in row.precision.lower() for word in NARROW):
        return
    if (row.flops_per_s_per_device or 0.0) > peak:
        yield f"{row.flops_per_s_per_device / 1e12:.0f} TFLOP/s of a peak of {peak / 1e12:.0f}"
    if times and row.params_b and not row.experts and (each := _flops(row)):
        needed = each * 1e9 * row.params_b * row.global_batch * row.seq_len / (max(times.values()) * row.devices)
        if needed > peak:
            size = units.plain(row.params_b)
            yield f"{size} billion parameters need {needed / 1e12:.0f} TFLOP/s of a peak of {peak / 1e12:.0f}"


def _flops(row: Any) -> int:
    """FLOPs a parameter and token that a row cannot do without; 0 where its words do not say."""
    task = row.task.lower()
    if task not in ("pretrain", "full fine-tuning", "lora fine-tuning"):
        return 0
    return (4 if "lora" in task else 6) + (2 if row.recompute == "full" else 0)


def _step_times(row: Any) -> dict[str, float]:
    """Seconds of a step by the figures that are one."""
    tokens, found = row.global_batch * row.seq_len, {}
    if row.step_s:
        found["step_s"] = row.step_s
    if row.tokens_per_s_per_device:
        found["tokens_per_s_per_device"] = tokens / (row.tokens_per_s_per_device * row.devices)
    if row.samples_per_s:
        found["samples_per_s"] = row.global_batch / row.samples_per_s
    return found


def _serving(metrics: Mapping[str, float | None], output: int | None) -> Iterator[str]:
    def first(*names: str) -> float | None:
        return next((float(value) for name in names if (value := metrics.get(name))), None)

    answers, tokens = first("output_tokens_per_s"), first("total_tokens_per_s")
    if answers and tokens and answers > MORE * tokens:
        yield f"{units.plain(answers, 4)} output tokens a second of {units.plain(tokens, 4)} of all"
    whole = first("e2e_mean_s", "e2e_latency_s")
    start, later = first("ttft_mean_s", "ttft_s"), first("tpot_mean_s", "tpot_s")
    if whole and start and start > MORE * whole:
        yield f"a first token after {start:g} s of requests of {whole:g} s"
    if whole and later and output and later * (output - 1) > WHOLE * whole:
        yield f"{output} tokens of {later:g} s in requests of {whole:g} s"


def _timed(metrics: Mapping[str, float | None], work: Mapping[str, float]) -> Iterator[str]:
    time = metrics.get("time_s")
    for name, amount in work.items():
        rate = metrics.get(name)
        if time and rate and not 1 / APART < amount / rate / time < APART:
            yield f"`{name}` says {amount / rate:.3g} s, `time_s` {time:.3g} s"
