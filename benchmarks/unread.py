"""List the words of measured training rows that change nothing in what is simulated.

    python -m benchmarks.unread [FILE ...]

The key `flags` of a row is free text. Each of its parts (between commas and semicolons) is left out in turn: where the
scenario, the stack and what is left open stay as they were, the part has no effect. That is right where the stack or
another key says the same (`flash attention`, `grad_accum=4`); otherwise the words are not understood. Numbers count as
one word, and each part is tried once a source.
"""

import argparse
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from simulator.interop.rows.jsonl import Refused, parse_line, read_lines, read_row
from simulator.interop.rows.training import Row, draft
from simulator.specs import data_root

FILES = ("training.jsonl", "training-unseen.jsonl", "blind-training.jsonl")


def parts(row: Row) -> list[str]:
    """Parts of the flags of a row."""
    return [part for found in re.split(r"[;,]", row.flags or "") if (part := found.strip())]


def without_effect(row: Row) -> Iterator[str]:
    """Parts of the flags of a row without which it is mapped, or refused, as with them."""
    listed = parts(row)
    whole = _mapped(row, listed)
    for place, part in enumerate(listed):
        if _mapped(row, listed[:place] + listed[place + 1 :]) == whole:
            yield part


def _mapped(row: Row, flags: list[str]) -> object:
    """What a row with these flags is simulated as, or why it is not."""
    try:
        found = draft(row.model_copy(update={"flags": "; ".join(flags) or None}))
    except Refused as error:
        return str(error)
    return found.scenario, found.stack, found.open


def unread(rows: Iterable[Row]) -> dict[str, list[str]]:
    """Sources by the words that change nothing in their rows, with N in the place of numbers."""
    found: dict[str, list[str]] = {}
    tried: set[tuple[str, str]] = set()
    for row in rows:
        fresh = {part: (row.source, re.sub(r"\d+(\.\d+)?", "N", part)) for part in parts(row)}
        if tried.issuperset(fresh.values()):
            continue
        for part in without_effect(row):
            source, words = fresh[part]
            if (source, words) not in tried:
                found.setdefault(words, []).append(source)
        tried.update(fresh.values())
    return dict(sorted(found.items()))


def rows_of(file: Path) -> Iterator[Row]:
    """Rows of a file that can be read."""
    for line in read_lines(file):
        try:
            yield read_row(Row, parse_line(line))
        except Refused:
            continue


def main() -> None:
    """Print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shipped = [data_root() / "workloads" / "measurements" / name for name in FILES]
    parser.add_argument("files", nargs="*", type=Path, default=shipped)
    found = unread(row for file in parser.parse_args().files for row in rows_of(file))
    for words, sources in found.items():
        print(f"{words[:70]:70} {', '.join(sources)}")
    print(f"{len(found)} words without effect")


if __name__ == "__main__":
    main()
