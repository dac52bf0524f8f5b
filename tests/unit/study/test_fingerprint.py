"""What the key of an outcome depends on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import simulator
from simulator.study import fingerprint


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of one module in the place of the program."""
    monkeypatch.setattr(simulator, "__file__", str(tmp_path / "__init__.py"))
    (tmp_path / "a.py").write_text("1")
    yield tmp_path
    fingerprint.program.cache_clear()


def program() -> str:
    fingerprint.program.cache_clear()
    return fingerprint.program()


def test_another_source_is_another_program(package: Path) -> None:
    """Its text counts, its name and its version."""
    first = program()
    (package / "a.py").write_text("2")
    second = program()
    (package / "a.py").rename(package / "b.py")
    assert len({first, second, program()}) == 3
    (package / "b.py").rename(package / "a.py")
    assert program() == second
    (package / "a.py").write_text("1")
    assert program() == first
    (package / "notes.txt").write_text("no source")
    assert program() == first


def test_another_version_is_another_program(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = program()
    monkeypatch.setattr(simulator, "__version__", "another")
    assert program() != first
