from pathlib import Path

from simulator.report.catalogue.defaults import defaults
from simulator.specs import load_scenario

SCENARIO = Path(__file__).resolve().parents[4] / "scenarios" / "quickstart.yaml"


def remarks(*changes: str) -> dict[str, str]:
    return defaults(load_scenario(SCENARIO, changes).scenario)


def test_what_is_open_is_settled_by_the_stack() -> None:
    found = remarks("stack=megatron-lm-2021")
    assert found["training.precision"] == "left to the stack: fp16"
    assert found["training.parallel.zero"] == "left to the stack: 0"
    assert "training.recompute" not in found  # given in the scenario


def test_replicas_follow_from_the_devices() -> None:
    assert "training.parallel.dp" not in remarks("+training.parallel.dp=2")
    assert remarks()["training.parallel.dp"] == "derived: 2 = 8 devices / (tp 2 x pp 2)"
    assert remarks("training.parallel.tp=3")["training.parallel.dp"] == "default"
    plain = remarks("training.parallel.tp=1", "training.parallel.pp=1")
    assert plain["training.parallel.dp"] == "derived: 8 = 8 devices / (1)"
