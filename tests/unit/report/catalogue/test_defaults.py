from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.report.catalogue.defaults import defaults, origins
from simulator.specs import load_scenario
from tests.several import SPINE

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


JOBS = SCENARIO.parent / "jobs" / "training-beside-serving.yaml"


def test_what_each_of_several_jobs_leaves_open() -> None:
    found = defaults(load_scenario(JOBS).scenario)
    assert found["jobs.0.training.parallel.dp"] == "derived: 32 = 32 devices / (1)"
    assert found["jobs.0.training.precision"] == "left to the stack: bf16"
    assert found["jobs.1.serving.batching.policy"] == "left to the stack: vllm-v1"
    assert {path.split(".")[1] for path in found} == {"0", "1"}


def test_where_jobs_lie_stands_beside_their_placement() -> None:
    loaded = load_scenario(SPINE, ["jobs.1.placement=packed"])
    found = origins(loaded.scenario, loaded.origins)
    assert found["jobs.0.placement"].endswith(":18: 32 devices of nodes 0, 2, 4, 6")
    assert found["jobs.1.placement"].endswith(": 32 devices of nodes 1, 3, 5, 7")
    named = load_scenario(JOBS)
    assert not any("devices of" in origin for origin in origins(named.scenario, named.origins).values())


def test_jobs_that_cannot_be_placed() -> None:
    loaded = load_scenario(SPINE, ["jobs.1.nodes=9"])
    with pytest.raises(InputError, match="needs 9 whole nodes"):
        origins(loaded.scenario, loaded.origins)
