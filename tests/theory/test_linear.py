"""Layers with a state: published sizes, constant states, FLOP of the published counts."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.ops import StateScan
from simulator.model.parameters import active_parameters, total_parameters
from simulator.model.tensors import scan
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario, load_spec
from simulator.specs.model import Model


def state_bytes(model: Model) -> float:
    """Of one sequence: states as they are kept, tails of convolutions in 16 bits."""
    found = [scan(layer(model, Cut(), kind)) for kind in model.kinds]
    return sum(one.state * one.state_bytes + one.tail * 2.0 for one in found if one is not None)


@pytest.mark.parametrize(
    ("name", "billions", "visited", "megabytes"),
    [
        ("qwen3-next-80b-a3b", 79.7, 3.6, 77),
        ("qwen3.5-397b-a17b", 396.4, 16.3, 192),
        ("qwen3.5-122b-a10b", 122.1, 9.0, 154),
        ("qwen3.5-35b-a3b", 34.7, 3.0, 64),
        ("qwen3.5-27b", 26.9, None, 154),
        ("kimi-linear-48b-a3b", 49.1, 3.1, 43),
        ("kimi-k3", 2779, 104.2, 449),
        ("nemotron-h-56b", 56.3, None, 913),
        ("nemotron-3-nano-30b-a3b", 31.6, 3.2, 49),
        ("nemotron-3-super-120b-a12b", 120.7, 12.2, 170),
        ("nemotron-3-ultra-550b-a55b", 549.3, 55.0, 408),
        ("jamba-1.5-large", 398.6, 93.6, None),
        ("mamba-2-1.3b", 1.34, None, 102),
        ("gla-1.3b", 1.37, None, 50),
    ],
)
def test_sizes_are_as_published(name: str, billions: float, visited: float | None, megabytes: float | None) -> None:
    model = load_spec(Model, f"models/{name}")
    assert total_parameters(model) / 1e9 == pytest.approx(billions, rel=0.005)
    if visited is not None:
        assert active_parameters(model) / 1e9 == pytest.approx(visited, rel=0.02)
    if megabytes is not None:
        assert state_bytes(model) / 1e6 == pytest.approx(megabytes, rel=0.01)


def test_flops_of_a_row_are_the_published_counts() -> None:
    # Megatron-LM: 8 heads d^2 and 7 inner n; equation 13 of arXiv:2510.26692 at chunks of 64.
    assert StateScan("delta", 32, 16, 128, 128, 64).flops == 8 * 32 * 128**2
    assert StateScan("mamba2", 64, 8, 128, 64, 128).flops == 7 * 64 * 64 * 128
    assert StateScan("kda", 32, 32, 128, 128, 64).flops == 32 * (6 * 128**2 + 3 * 64 * 128 + 64**2)
    assert StateScan("gla", 4, 4, 256, 512, 64).flops == 4 * (4 * 256 * 512 + 2 * 64 * (256 + 512))
    assert StateScan("mamba1", 4096, 1, 16, 1, 64).flops == 9 * 4096 * 16


def test_the_state_does_not_know_how_long_the_sequence_is_and_devices_share_it() -> None:
    model = load_spec(Model, "models/nemotron-h-56b")
    stateful = next(kind for kind in model.kinds if kind.stateful)
    whole, eighth = scan(layer(model, Cut(), stateful)), scan(layer(model, Cut({"tp": 8}), stateful))
    assert whole is not None and eighth is not None
    assert eighth.state * 8 == whole.state == 256 * 64 * 256


TRAINED = {"global_batch": 16, "micro_batch": 1, "sequence_length": 4096}
SERVED = {
    "arrivals": {"poisson": "2 /s"},
    "lengths": {"prompt": {"fixed": 1000}, "output": {"fixed": 50}},
    "count": 20,
}


def run(tmp_path: Path, **fields: Any) -> dict[str, float]:
    """Metrics of a scenario on a node of H100."""
    given = {"version": 1, "name": "test", "cluster": {"extends": "clusters/dgx-h100", "nodes": 1}} | fields
    (tmp_path / "test.yaml").write_text(json.dumps(given))
    return dict(simulate(load_scenario(tmp_path / "test.yaml").scenario).metrics)


def test_a_step_takes_as_long_for_as_many_tokens_in_longer_sequences(tmp_path: Path) -> None:
    def seconds(model: str, sequence: int) -> float:
        training = TRAINED | {"sequence_length": sequence, "global_batch": 16 * 4096 // sequence * 4}
        stack = {
            "extends": "stacks/megatron-core",
            "layer_overhead": {"value": "0 s", "status": "estimate", "source": "none"},
        }
        return run(tmp_path, model=f"models/{model}", stack=stack, training=training)["step_time_s"]

    assert seconds("gla-1.3b", 8192) == pytest.approx(seconds("gla-1.3b", 4096), rel=0.02)
    assert seconds("gpt3-1.3b", 8192) > 1.1 * seconds("gpt3-1.3b", 4096)


def test_hybrids_train_and_serve_from_end_to_end(tmp_path: Path) -> None:
    layout = {"parallel": {"tp": 8}, "recompute": "full"}
    trained = run(tmp_path, model="models/qwen3.5-27b", stack="megatron-core", training=TRAINED | layout)
    assert 0.1 < trained["mfu"] < 0.6
    for name in ("nemotron-3-nano-30b-a3b", "qwen3.5-35b-a3b", "kimi-linear-48b-a3b"):
        serving = {"parallel": {"tp": 2}, "context": 8192}
        served = run(tmp_path, model=f"models/{name}", stack="vllm", serving=serving, requests=SERVED)
        assert served["completed"] == 20


def test_prefixes_of_models_with_states_are_refused(tmp_path: Path) -> None:
    serving = {"context": 8192, "kv_cache": {"prefix_caching": "block"}}
    with pytest.raises(InputError, match="states at the ends of prefixes are not kept"):
        run(tmp_path, model="models/mamba-2-1.3b", stack="vllm", serving=serving, requests=SERVED)
