"""Requests of LLMServingSim: JSON a line of input_toks, output_toks and arrival_time in seconds (or arrival_time_ns).

Source: casys-kaist/LLMServingSim, whose measured runs of vLLM come in this form.
"""

from simulator.interop.traces.columns import Rows, TraceColumns
from simulator.interop.traces.format import FORMATS, Beginning, Format
from simulator.interop.traces.source import Source

IN_NANOSECONDS = "arrival_time_ns"


def _recognises(beginning: Beginning) -> bool:
    return not beginning.keys.isdisjoint({"input_toks", "output_toks"})


def _read(source: Source) -> TraceColumns:
    rows = Rows(source)
    for line, record in source.objects():
        key, scale = (IN_NANOSECONDS, 1e-9) if IN_NANOSECONDS in record else ("arrival_time", 1.0)
        time = rows.seconds(source.key(record, key, line), line, key, scale)
        prompt = rows.whole(source.key(record, "input_toks", line), line, "input_toks")
        rows.add(line, prompt, rows.whole(source.key(record, "output_toks", line), line, "output_toks"), time)
    return rows.columns(ordered=False)


FORMATS.add("llmservingsim")(Format("requests of LLMServingSim (JSON a line)", _recognises, _read))
