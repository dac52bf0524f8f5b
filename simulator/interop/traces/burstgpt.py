"""BurstGPT: CSV of Timestamp (seconds), Request tokens, Response tokens and more, in newer files with Session ID.

Source: arXiv:2401.17644. A response of 0 tokens is a failed request.
"""

from simulator.interop.traces.columns import Rows, TraceColumns
from simulator.interop.traces.format import FORMATS, Beginning, Format
from simulator.interop.traces.source import Source

COLUMNS = ("Timestamp", "Request tokens", "Response tokens")


def _recognises(beginning: Beginning) -> bool:
    return not beginning.columns.isdisjoint({"request tokens", "response tokens"})


def _read(source: Source) -> TraceColumns:
    rows = Rows(source)
    for line, (time, prompt, output, session) in source.table(*COLUMNS, optional=("Session ID",)):
        sizes = rows.whole(prompt, line, COLUMNS[1]), rows.whole(output, line, COLUMNS[2])
        if rows.add(line, *sizes, rows.seconds(time, line, COLUMNS[0])):
            rows.converse(session and session.strip())
    return rows.columns(ordered=False)


FORMATS.add("burstgpt")(Format("BurstGPT (CSV)", _recognises, _read))
