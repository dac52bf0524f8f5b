"""Our own plain CSV: columns prompt and output (tokens), and if wanted arrival_s (seconds), session, priority, and
images (sizes of the images of a request in pixels, `1024x768 512x512`)."""

from simulator.interop.traces.columns import Rows, TraceColumns
from simulator.interop.traces.format import FORMATS, Beginning, Format
from simulator.interop.traces.source import Source

COLUMNS = ("prompt", "output")
OPTIONAL = ("arrival_s", "session", "priority", "images")


def _recognises(beginning: Beginning) -> bool:
    return not beginning.columns.isdisjoint(COLUMNS)


def _read(source: Source) -> TraceColumns:
    rows = Rows(source)
    for line, (prompt, output, arrival, session, priority, images) in source.table(*COLUMNS, optional=OPTIONAL):
        sizes = rows.whole(prompt, line, "prompt"), rows.whole(output, line, "output")
        time = None if arrival is None else rows.seconds(arrival, line, "arrival_s")
        if rows.add(line, *sizes, time):
            rows.converse(session and session.strip())
            if priority is not None:
                rows.rank(rows.whole(priority, line, "priority"))
            if images is not None:
                rows.see(images, line, "images")
    return rows.columns(ordered=False)


FORMATS.add("plain")(Format("plain CSV with the columns `prompt`, `output` and `arrival_s`", _recognises, _read))
