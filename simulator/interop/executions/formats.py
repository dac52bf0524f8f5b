"""Which program an execution trace is of, found from how the file begins."""

from pathlib import Path

from simulator.interop.executions import chakra, kineto
from simulator.interop.executions.graph import Execution, read_bounded

_HEAD = 1 << 16
_TEXT = (b"{", b"[")


def read(path: str | Path) -> Execution:
    """The execution of a file; InputError for what is none."""
    data = read_bounded(Path(path))
    begin = data[:_HEAD].lstrip()
    if begin.startswith((b"\x1f\x8b", b"[")):
        return kineto.read(path)
    if begin.startswith(_TEXT):
        return chakra.read(path) if b'"nodes"' in data and b'"traceEvents"' not in data else kineto.read(path)
    return chakra.read(path)
