"""Azure LLM inference traces of 2023 and 2024: CSV of TIMESTAMP, ContextTokens and GeneratedTokens.

Source: Azure/AzurePublicDataset. Times are dates of up to nine decimals, with or without a zone; rows are in the order
of arrival.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

from simulator.interop.traces.columns import Rows, TraceColumns
from simulator.interop.traces.format import FORMATS, Beginning, Format
from simulator.interop.traces.source import Source

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_DATE = re.compile(r"\s*(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?\s*", re.ASCII)


def _recognises(beginning: Beginning) -> bool:
    return not beginning.columns.isdisjoint({"contexttokens", "generatedtokens"})


def _read(source: Source) -> TraceColumns:
    rows = Rows(source)
    origin: int | None = None
    for line, (time, prompt, output) in source.table(*COLUMNS):
        second, fraction = _moment(source, time or "", line)
        origin = second if origin is None else origin
        sizes = rows.whole(prompt, line, COLUMNS[1]), rows.whole(output, line, COLUMNS[2])
        rows.add(line, *sizes, second - origin + fraction)
    return rows.columns(ordered=True)


def _moment(source: Source, text: str, line: int) -> tuple[int, float]:
    """(whole seconds since 1970, the rest): together they would lose the last digits."""
    match = _DATE.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        return _second(match[1], match[3] or "Z"), float(match[2] or 0)
    except (ValueError, OverflowError):
        hint = "write, for example, `2023-11-16 18:15:46.6805900`"
        raise source.error(f"`{text.strip()[:40]}` is no date", line, COLUMNS[0], hint) from None


@lru_cache(maxsize=16)
def _second(text: str, zone: str) -> int:
    date = datetime.fromisoformat(text + ("" if zone == "Z" else zone))
    return round((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp())


FORMATS.add("azure")(Format("Azure LLM inference traces (CSV)", _recognises, _read))
