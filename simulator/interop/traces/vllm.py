"""Results of `vllm bench serve --save-result --save-detailed`: one JSON object with lists that have an item a request.

Read are input_lens, output_lens and, in newer versions, start_times (seconds of a clock of its own). An output of 0
tokens is a failed request.
"""

from typing import Any

from simulator.interop.traces.columns import Rows, TraceColumns
from simulator.interop.traces.format import FORMATS, Beginning, Format
from simulator.interop.traces.source import Source

RESULT_KEYS = frozenset({"input_lens", "output_lens", "request_throughput", "num_prompts", "endpoint_type"})
"""Keys of which a result has at least one."""
_HINT = "write the result with `--save-result --save-detailed`"


def _recognises(beginning: Beginning) -> bool:
    if beginning.keys:
        return not beginning.keys.isdisjoint(RESULT_KEYS)
    return beginning.text.startswith("{")


def _read(source: Source) -> TraceColumns:
    result = source.document()
    if not isinstance(result, dict):
        raise source.error("is no JSON object", 1, hint=_HINT)
    prompts, outputs = (_list(source, result, name) for name in ("input_lens", "output_lens"))
    times = _list(source, result, "start_times") if result.get("start_times") else [None] * len(prompts)
    if not len(prompts) == len(outputs) == len(times):
        problem = f"{len(prompts)} prompts, {len(outputs)} answers and {len(times)} times do not belong together"
        raise source.error(problem, 1)
    rows = Rows(source)
    for prompt, output, time in zip(prompts, outputs, times, strict=True):
        seconds = None if time is None else rows.seconds(time, 1, "start_times")
        rows.add(1, rows.whole(prompt, 1, "input_lens"), rows.whole(output, 1, "output_lens"), seconds)
    return rows.columns(ordered=False)


def _list(source: Source, result: dict[str, Any], name: str) -> list[Any]:
    value = result.get(name)
    if not isinstance(value, list):
        raise source.error(f"the list `{name}` is missing", 1, hint=_HINT)
    return value


FORMATS.add("vllm")(Format("details of `vllm bench serve` (JSON)", _recognises, _read))
