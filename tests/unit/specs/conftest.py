"""An empty working folder with a small catalogue of parts."""

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes (path, text) below a working folder that is otherwise empty."""
    monkeypatch.chdir(tmp_path)

    def place(path: str, text: str) -> Path:
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    return place


@pytest.fixture
def garage(write: Write) -> Write:
    """The working folder with two motors and a car; returns the writer."""
    write(
        "parts/motors/diesel.yaml",
        "name: diesel\ndelay: 1 s\nload: {value: 0.5, status: measured, source: test stand}\n",
    )
    write("parts/motors/electric.yaml", "name: electric\ndelay: 2 ms\n")
    write("cars/small.yaml", "name: small\nmotor: motors/diesel\nseats: {rows: 2}\nsizes: {a: 1, b: 2}\n")
    return write
