"""Words of measured rows that change nothing in what is simulated."""

from benchmarks.unread import unread, without_effect
from simulator.interop.rows.training import Row

ROW = {
    "id": "row",
    "source": "test",
    "framework": "Hugging Face TRL, FSDP2",
    "model": "Qwen3-8B",
    "device": "H100-80GB",
    "devices": 8,
    "devices_per_node": 8,
    "hidden": 4096,
    "layers": 36,
    "heads": 32,
    "seq_len": 4096,
    "precision": "bf16",
    "global_batch": 8,
    "micro_batch": 1,
    "tp": 1,
    "pp": 1,
    "shard": "FSDP2",
    "recompute": "full",
    "primary_metric": "step_s",
    "step_s": 1.0,
}


def test_a_part_that_changes_the_scenario_is_read() -> None:
    row = Row.model_validate(ROW | {"flags": "activation checkpoints offloaded to the host; blue cables"})
    assert list(without_effect(row)) == ["blue cables"]


def test_a_part_that_refuses_the_row_is_read() -> None:
    row = Row.model_validate(ROW | {"flags": "states on NVMe, blue cables"})
    assert list(without_effect(row)) == ["blue cables"]


def test_words_are_counted_once_a_source_whatever_their_numbers() -> None:
    rows = [Row.model_validate(ROW | {"source": source, "flags": flags}) for source, flags in SAID]
    assert unread(rows) == {"N cables": ["a", "b"], "green": ["a"]}


SAID = (("a", "4 cables"), ("a", "2.5 cables; green"), ("b", "3 cables"))
