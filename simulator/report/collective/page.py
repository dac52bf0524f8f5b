"""A collective as a page for a terminal."""

from simulator import units
from simulator.report.text.plain import clean
from simulator.report.text.wording import plural
from simulator.results.documents.collective import CollectiveDocument


def page(document: CollectiveDocument) -> str:
    """What it costs, and the bytes on the busiest link of each kind."""
    size, time = units.format(document.size_bytes, "bytes"), units.format(document.time_s, "time")
    rate = units.format(document.size_bytes / document.time_s, "bandwidth") if document.time_s else "-"
    place = f"{plural(document.ranks, 'rank')} on {plural(document.nodes, 'node')} of {clean(document.cluster)}"
    lines = [
        f"{document.operation} of {size} by {place}",
        f"  library    {clean(document.library)}: {document.algorithm or 'nothing is sent'}",
        f"  time       {time}, of which bytes move {units.format(document.moving_s, 'time')}; {rate}",
    ]
    for kind, sent in document.busiest_bytes.items():
        decides = ", which decides" if kind == document.bottleneck else ""
        lines.append(f"  {kind:<10} {units.format(sent, 'bytes')} on the busiest link{decides}")
    return "\n".join(lines) + "\n"
