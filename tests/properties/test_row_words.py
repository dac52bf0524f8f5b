"""Published rows in other words: the same scenario, or a refusal; never another scenario.

Each key of words of shipped rows is written in other ways (case, hyphens, numbers in quotes), and with a word that no
vocabulary knows.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from simulator.interop.rows.jsonl import Refused, read_lines, read_row, sample
from simulator.interop.rows.serving import ServingRow
from simulator.interop.rows.training import Row
from simulator.run.measured import fit_memory
from simulator.run.measured.serving import map_serving_row
from simulator.run.measured.training import map_row
from simulator.specs import data_root, scenario_hash

FOLDER = data_root() / "workloads" / "measurements"
WORDS = ("device", "precision", "shard", "recompute", "schedule", "attention", "framework")
KNOWN = ("precision", "shard", "recompute", "schedule", "attention")
"""Keys of which every word is read."""
SERVED = ("accelerator", "engine")
SPELLINGS: dict[str, Callable[[str], str]] = {
    "upper": str.upper,
    "lower": str.lower,
    "hyphens": lambda text: re.sub(r"[ _]", "-", text),
    "underscores": lambda text: re.sub(r"[ -]", "_", text),
    "spaces": lambda text: re.sub(r"[-_]", " ", text),
    "padded": lambda text: f"  {text}  ",
}


def rows(name: str) -> list[dict[str, Any]]:
    """One row of every source."""
    return [json.loads(line.text or "") for line in sample(list(read_lines(FOLDER / name)), 1)]


def quoted(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its numbers in quotes."""
    plain = (int, float)
    return {
        key: str(value) if isinstance(value, plain) and not isinstance(value, bool) else value
        for key, value in row.items()
    }


def trained(row: dict[str, Any]) -> Any:
    """(scenario but for its name, assumptions) of a training row, or the words of its refusal."""
    try:
        found = map_row(read_row(Row, row))
    except Refused as refused:
        return str(refused)
    return found.scenario


@pytest.fixture(autouse=True)
def _candidates_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that leave chunks open would be simulated with each number of them: here anything that a scenario decides
    stands for its time."""
    monkeypatch.setattr(fit_memory, "_estimated", lambda scenario: int(scenario_hash(scenario), 16))


def served(row: dict[str, Any]) -> Any:
    """The scenario of a serving row, or the words of its refusal."""
    try:
        return map_serving_row(read_row(ServingRow, row)).scenario
    except Refused as refused:
        return str(refused)


def same(changed: Any, plain: Any) -> bool:
    """Whether two mappings are the same scenario, or both are refused."""
    return isinstance(changed, str) if isinstance(plain, str) else bool(changed == plain)


@pytest.mark.parametrize("row", rows("training.jsonl"), ids=lambda row: row["source"])
def test_training_rows_mean_the_same_in_other_spellings(row: dict[str, Any]) -> None:
    plain = trained(row)
    assert same(trained(quoted(row)), plain)
    for spell in SPELLINGS.values():
        changed = {key: spell(row[key]) for key in WORDS if isinstance(row.get(key), str)}
        assert same(trained(row | changed), plain), changed


@pytest.mark.parametrize("row", rows("training.jsonl"), ids=lambda row: row["source"])
def test_a_word_that_nobody_knows_refuses_a_training_row(row: dict[str, Any]) -> None:
    for key in KNOWN:
        changed = row | {key: f"{row.get(key) or ''} gloriously"}
        assert isinstance(trained(changed), str), key


@pytest.mark.parametrize("row", rows("serving.jsonl"), ids=lambda row: row["source"])
def test_serving_rows_mean_the_same_in_other_spellings(row: dict[str, Any]) -> None:
    plain = served(row)
    assert same(served(quoted(row)), plain)
    for spell in SPELLINGS.values():
        changed: dict[str, Any] = {key: spell(row[key]) for key in SERVED}
        formats = {
            key: spell(text) if isinstance(text, str) else text for key, text in row.get("precision", {}).items()
        }
        changed["precision"] = {key: text for key, text in formats.items() if key != "checkpoint"} | {
            key: text for key, text in row.get("precision", {}).items() if key == "checkpoint"
        }
        assert same(served(row | changed), plain), changed


@pytest.mark.parametrize("row", rows("serving.jsonl"), ids=lambda row: row["source"])
def test_a_word_that_nobody_knows_refuses_a_serving_row(row: dict[str, Any]) -> None:
    assert isinstance(served(row | {"precision": {"compute": "fp8 gloriously"}}), str)
    assert isinstance(served(row | {"accelerator": "NVIDIA Gloriously 80GB"}), str)
    assert isinstance(served(row | {"engine": "Gloriously"}), str)
    assert isinstance(served(row | {"model": "Gloriously-7B"}), str)
    assert isinstance(served(row | {"parallelism": {"gloriously": 2}}), str)
