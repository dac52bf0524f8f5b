"""What an outcome depends on, as hashes: the scenario, the files that it names, and the program with its tables.

Two simulations with the same key give the same outcome; whatever could change it changes the key. Plugins of third
parties are not looked into: after a change of one, sweep without the old cache.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import simulator
from simulator.errors import InputError, Problem
from simulator.specs import data_root, dump
from simulator.specs.base import Spec
from simulator.specs.kernels import KernelProfile
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.scenario import AnyRun

_SUFFIXES = (".csv", ".json", ".jsonl", ".yaml", ".yml", ".gz", ".txt", ".parquet")
_LATE: tuple[type[Spec], ...] = (KernelProfile, CollectiveProfile)  # kinds that are read when a scenario runs


@cache
def program() -> str:
    """Sixteen hexadecimal digits of the version, the source of the package and the tables that it reads as it runs."""
    package = Path(simulator.__file__).parent
    folders = [base / kind.folder for kind in _LATE for base in (data_root(), Path.cwd()) if kind.folder]
    files = [*package.rglob("*.py"), *(path for folder in folders for path in folder.rglob("*.y*ml"))]
    digest = sha256(simulator.__version__.encode())
    for path in sorted(set(files)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def check(known: str) -> None:
    """InputError in a worker whose program is another one than the caller's, `known` there."""
    if known != program():
        hint = "install the same version for all workers, and start them in folders with the same profiles"
        raise InputError(Problem("a worker has another version of the simulator, or other profiles", hint=hint))


def key(scenario: AnyRun) -> str:
    """The key of a scenario's outcome under this program."""
    fields = dump(scenario)
    parts = {"program": program(), "scenario": fields, "files": dict(_files(fields))}
    return sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _files(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(name, hash) of each file that the scenario names and that is read only when it runs."""
    named = {text for text in _texts(fields.values()) if text.endswith(_SUFFIXES)}
    for text in sorted(named | set(_traces(fields))):  # a trace is known by its content, not its name
        for path in (Path(text), data_root() / text):
            if path.is_file():
                yield str(path), _digest(path, path.stat().st_mtime_ns, path.stat().st_size)
                break


def _traces(fields: Mapping[str, Any]) -> Iterator[str]:
    """Traces of its requests and of its router, matrices of its network, and of those of its jobs or stages."""
    for part in (fields, *fields.get("jobs", ()), *fields.get("stages", ())):
        routing = (part.get("training") or {}).get("routing") or {}
        network = (part.get("cluster") or {}).get("network") or {}
        for trace in ((part.get("requests") or {}).get("trace"), routing.get("trace"), network.get("matrix")):
            if trace is not None:
                yield trace


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, list):
            yield from _texts(value)


@cache
def _digest(path: Path, changed: int, size: int) -> str:
    """Hash of a file's content; it is read again when it has changed."""
    return sha256(path.read_bytes()).hexdigest()
