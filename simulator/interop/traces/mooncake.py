"""Mooncake traces: JSON a line of timestamp (ms), input_length, output_length and hash_ids.

Source: kvcache-ai/Mooncake, arXiv:2407.00079. There is a hash for each 512 tokens of the prompt, the last block being
partial; equal ones stand for equal tokens. Rows are in the order of arrival.
"""

from typing import Any

from simulator.interop.traces.columns import Rows, TraceColumns
from simulator.interop.traces.format import FORMATS, Beginning, Format
from simulator.interop.traces.source import Source

BLOCK = 512
"""Tokens of a hashed block."""


def _recognises(beginning: Beginning) -> bool:
    return not beginning.keys.isdisjoint({"input_length", "output_length", "hash_ids"})


def _read(source: Source) -> TraceColumns:
    rows = Rows(source)
    for line, record in source.objects():
        time = rows.seconds(source.key(record, "timestamp", line), line, "timestamp", 1e-3)
        prompt = rows.whole(source.key(record, "input_length", line), line, "input_length")
        output = rows.whole(source.key(record, "output_length", line), line, "output_length")
        hashes = _hashes(source, record.get("hash_ids", []), line)
        if len(hashes) not in (0, -(-prompt // BLOCK)):
            problem = f"{len(hashes)} blocks of {BLOCK} tokens do not make a prompt of {prompt:,}"
            raise source.error(problem, line, "hash_ids")
        if rows.add(line, prompt, output, time):
            rows.share(hashes)
    return rows.columns(ordered=True, hash_block=BLOCK)


def _hashes(source: Source, value: Any, line: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(item) is int for item in value):
        raise source.error("is no list of whole numbers", line, "hash_ids")
    return tuple(value)


FORMATS.add("mooncake")(Format("Mooncake traces (JSON a line)", _recognises, _read))
