"""The registry of trace formats, and the choice of one by what a file begins with."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from simulator.interop.traces.columns import TraceColumns
from simulator.interop.traces.source import Source, places_of
from simulator.registry import Registry
from simulator.specs.catalog import shown


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a file begins with."""

    text: str
    """Its first characters, without space in front."""
    columns: frozenset[str]
    """Lower-case names of its columns, if it is CSV."""
    keys: frozenset[str]
    """Keys of the object on its first line, if there is one."""


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of trace file."""

    what: str
    """How people call it, for messages."""
    recognises: Callable[[Beginning], bool]
    """Whether a file that begins so is meant to be one."""
    read: Callable[[Source], TraceColumns]
    """The requests of such a file; InputError where it is damaged."""


FORMATS: Registry[Format] = Registry("trace format")
"""Trace formats by name."""


def read(path: str | Path) -> TraceColumns:
    """The requests of a trace file, whose format is recognised by its content.

    Raises InputError, with file and line, where the file cannot be read, is of no known format, or is damaged.
    """
    source = Source(Path(path), shown(Path(path)))
    beginning = _beginning(source.head())
    for name in FORMATS.names():
        kind = FORMATS.get(name)
        if kind.recognises(beginning):
            return replace(kind.read(source), format=name)
    kinds = ", ".join(FORMATS.get(name).what for name in FORMATS.names())
    raise source.error("is no trace of a known kind", hint=f"known are {kinds}")


def _beginning(text: str) -> Beginning:
    text = text.lstrip()
    line = text.partition("\n")[0]
    if text[0] in "[{":
        return Beginning(text, frozenset(), _keys(line))
    return Beginning(text, frozenset(places_of(line.replace('"', "").split(","))), frozenset())


def _keys(line: str) -> frozenset[str]:
    try:
        value: Any = json.loads(line)
    except (ValueError, RecursionError):  # no object on one line: a document
        return frozenset()
    return frozenset(value) if isinstance(value, dict) else frozenset()
