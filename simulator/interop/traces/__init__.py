"""Request traces of others, recognised by their content and not by their name.

A format is a module here that registers a `Format` in `FORMATS`: how its files are recognised, and how a line becomes
a request. To add one, write such a module and import it below. Whatever a file holds, it gives columns or one
`InputError` that names the file and the line; lines, rows and documents have a largest size, so that time and memory
are bounded.
"""

from simulator.interop.traces import (
    azure,
    burstgpt,
    llmservingsim,
    mooncake,
    plain,
    sharegpt,
    vllm,
)
from simulator.interop.traces.columns import TraceColumns
from simulator.interop.traces.format import FORMATS, Format, read

__all__ = [
    "FORMATS",
    "Format",
    "TraceColumns",
    "azure",
    "burstgpt",
    "llmservingsim",
    "mooncake",
    "plain",
    "read",
    "sharegpt",
    "vllm",
]
