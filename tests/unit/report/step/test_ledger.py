from typing import Any

import numpy as np
import pytest

from simulator.report.step.ledger import hints
from simulator.results.result import MemoryUse


def use(**kinds: float) -> MemoryUse:
    return MemoryUse(0, 10.0, sum(kinds.values()), kinds, np.zeros(0, np.int64), np.zeros(0))


def scenario(devices: int = 8, **training: Any) -> dict[str, Any]:
    layout = {key: training.pop(key) for key in ("tp", "pp", "dp", "zero", "sequence_parallel") if key in training}
    stack = training.pop("stack", {})
    return {
        "stack": stack,
        "cluster": {"nodes": 1, "node": {"devices": devices}},
        "training": {**training, "parallel": layout},
    }


@pytest.mark.parametrize(
    ("ledger", "given", "wanted", "unwanted"),
    [
        ({"optimizer": 9.0}, {}, "parallel.zero=1", "zero=2"),
        ({"optimizer": 9.0}, {"zero": 1}, "pp or tp", "zero"),
        ({"optimizer": 9.0}, {"dp": 1}, "pp or tp", "zero"),
        ({"optimizer": 9.0}, {"pp": 8}, "(now pp 8, tp 1)", "zero"),
        ({"optimizer": 9.0, "activations": 9.0}, {"stack": {"zero": 1, "recompute": "full"}}, "pp or tp", "zero=1"),
        ({"activations": 9.0}, {"stack": {"recompute": "full"}}, "pp or tp", "recompute"),
        ({"parameters": 9.0}, {"zero": 2}, "zero=3", "recompute"),
        ({"gradients": 9.0}, {"zero": 1}, "zero=2", "recompute"),
        ({"activations": 9.0}, {"attention": "unfused"}, "recompute=selective", "micro_batch"),
        ({"activations": 9.0}, {"attention": "fused"}, "recompute=full", "selective"),
        ({"activations": 9.0}, {"recompute": "selective"}, "recompute=full", "selective "),
        (
            {"activations": 9.0},
            {"recompute": "full", "micro_batch": 4},
            "training.micro_batch=2 instead of 4",
            "recompute",
        ),
        ({"activations": 9.0}, {"tp": 2}, "sequence_parallel=true", "zero"),
        ({"activations": 9.0}, {"tp": 2, "sequence_parallel": True}, "recompute", "sequence_parallel"),
        ({"working": 9.0}, {"micro_batch": 2}, "training.micro_batch=1 instead of 2", "zero"),
        ({"optimizer": 9.0, "activations": 0.1}, {}, "zero=1", "recompute"),
    ],
)
def test_hints_fit_the_ledger_and_the_scenario(
    ledger: dict[str, float], given: dict[str, Any], wanted: str, unwanted: str
) -> None:
    text = "\n".join(hints(use(**ledger), scenario(**given)))
    assert wanted in text
    assert unwanted not in text


def test_a_single_device_gets_no_hint_that_needs_more() -> None:
    text = "\n".join(hints(use(optimizer=5.0, activations=5.0), scenario(devices=1)))
    assert "zero" not in text
    assert "tp" not in text
    assert "more devices" in text


def test_hints_without_a_scenario() -> None:
    assert hints(use(optimizer=5.0), {})


@pytest.mark.parametrize(("stages", "wanted"), [(2, "raise training.parallel.pp or tp"), (8, "pp leaves it on one")])
def test_more_stages_do_not_cut_the_vocabulary(stages: int, wanted: str) -> None:
    """8 layers of 16.8 M weights and a vocabulary of 33.6 M: larger than what is on its stage from 5 stages on."""
    model = {"vocabulary": 32_768, "hidden": 1024, "layers": 8, "ffn": 4096}
    text = "\n".join(hints(use(parameters=9.0), scenario(pp=stages) | {"model": model}))
    assert wanted in text
