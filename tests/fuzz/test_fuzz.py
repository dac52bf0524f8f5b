"""A short walk over the inputs of each kind; `make fuzz` takes the long one."""

import ctypes
import time
from pathlib import Path

import pytest

from tests.fuzz import harness
from tests.fuzz.kinds import KINDS

SEED = 20
EACH = 2
"""Inputs of a kind for each unit of its weight."""
FEWER = {
    "tiers": 3,
    "commands": 4,
    "text": 2,
    "baseline": 2,
    "loads": 3,
    "arrays": 3,
    "keys": 8,
    "crossed": 8,
    "fits": 1,
}
"""Inputs of kinds whose inputs take most time."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_input_breaks_a_command(kind: str, tmp_path: Path) -> None:
    generator, weight = KINDS[kind]
    assert list(harness.run(generator, kind, SEED, range(FEWER.get(kind, EACH * weight)), tmp_path)) == []


def test_a_command_that_breaks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness sees an internal error, an endless loop and a wrong answer."""
    good = harness.Input(["profiles", "selene"])

    def broken(words: list[str]) -> int:
        raise KeyError("lost")

    def endless(words: list[str]) -> int:
        while True:
            pass

    assert harness.fault(good, tmp_path) is None
    wrong = harness.Input(["profiles"], check=lambda answer: "wrong" if answer.out else None)
    assert harness.fault(wrong, tmp_path) == "wrong"
    monkeypatch.setattr(harness, "main", lambda words: 3)
    assert "exit code 3" in (harness.fault(good, tmp_path) or "")
    monkeypatch.setattr(harness, "main", broken)
    assert "raised KeyError" in (harness.fault(good, tmp_path) or "")
    monkeypatch.setattr(harness, "main", endless)
    monkeypatch.setattr(harness, "SECONDS", 0.2)
    assert harness.fault(good, tmp_path) == harness.TOO_LONG


def test_the_limit_of_time_that_c_swallows_is_no_fault_of_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is raised in a callback is lost: a command that ends all the same is right, another is stopped later."""

    def busy() -> None:
        until = time.process_time() + 0.4
        while time.process_time() < until:
            pass

    def called_back(words: list[str]) -> int:
        ctypes.CFUNCTYPE(None)(busy)()
        return 0

    def endless(words: list[str]) -> int:
        while True:
            called_back(words)
            busy()

    monkeypatch.setattr(harness, "SECONDS", 0.2)
    for command, told in ((called_back, None), (endless, harness.TOO_LONG)):
        monkeypatch.setattr(harness, "main", command)
        assert harness.fault(harness.Input([]), tmp_path) == told


def test_an_input_is_made_again_by_its_number() -> None:
    for kind, (generator, _) in KINDS.items():
        first, again = (generator(harness.random_of(kind, 3, 14)) for _ in range(2))
        assert (first.words, first.files) == (again.words, again.files), kind
