"""Conversations as ShareGPT has them: a JSON list (or JSON a line) of `conversations`, turns with `from` and `value`.

As usual in benchmarks, a request is the first question of a conversation and the answer to it; conversations without
both are left out. Where a turn has `num_tokens` that is its length, else a token is taken to be four characters.
There are no times.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from simulator.interop.traces.columns import Rows, TraceColumns
from simulator.interop.traces.format import FORMATS, Beginning, Format
from simulator.interop.traces.source import Source

CHARACTERS = 4
"""Characters of a token of English; source: OpenAI, "What are tokens and how to count them?"."""
ASKING = ("human", "user")
ANSWERING = ("gpt", "assistant", "chatgpt", "bard", "bing", "model")
COUNTS = ("num_tokens", "tokens", "token_count")
"""Keys under which the length of a turn may stand."""


def _recognises(beginning: Beginning) -> bool:
    return "conversations" in beginning.keys or beginning.text.startswith("[")


def _read(source: Source) -> TraceColumns:
    rows, estimated = Rows(source), 0
    for line, item in _items(source):
        turns = _turns(source, item, line)
        pair = _first_pair(turns)
        if pair is None:
            rows.fail()
            continue
        lengths = [_length(rows, turn, line) for turn in pair]
        estimated += any(not counted for _, counted in lengths)
        rows.add(line, lengths[0][0], lengths[1][0])
    notes = ["the first question of each conversation and its answer are taken as a request"]
    if estimated:
        notes.append(f"lengths of {estimated:,} conversations are estimated: a token is {CHARACTERS} characters")
    return rows.columns(ordered=False, assumptions=tuple(notes))


def _items(source: Source) -> Iterator[tuple[int, Any]]:
    return source.items() if source.head().lstrip().startswith("[") else source.objects()


def _turns(source: Source, item: Any, line: int) -> list[dict[str, Any]]:
    turns = item.get("conversations") if isinstance(item, dict) else None
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise source.error("is no object with a list of `conversations`", line)
    return turns


def _first_pair(turns: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """The first question that is answered right away."""
    for turn, after in pairwise(turns):
        if turn.get("from", turn.get("role")) in ASKING and after.get("from", after.get("role")) in ANSWERING:
            return turn, after
    return None


def _length(rows: Rows, turn: dict[str, Any], line: int) -> tuple[int, bool]:
    """(tokens of a turn, whether they are counted and not estimated)."""
    for key in COUNTS:
        if key in turn:
            return rows.whole(turn[key], line, key), True
    text = turn.get("value", turn.get("content"))
    if not isinstance(text, str):
        raise rows.source.error("a turn has neither `value`, its text, nor `num_tokens`", line)
    return -(-len(text) // CHARACTERS), False


FORMATS.add("sharegpt")(Format("ShareGPT conversations (JSON)", _recognises, _read))
