"""Replicas over which the experts of a mixture are spread: what each holds, reads and sends."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.serving.costs.pieces import by_part
from simulator.serving.fleet.system import System, resolve
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Arrivals, Distribution, Lengths, Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Layout, Serving, ServingStack


def system(ep: int, replicas: int = 2, model: str = "qwen3-30b-a3b", tp: int = 1) -> System:
    """Replicas on a DGX H100."""
    lengths = Lengths(prompt=Distribution(fixed=512), output=Distribution(fixed=64))
    scenario = ServingScenario(
        version=1,
        name="x",
        cluster=load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 1}),
        model=load_spec(Model, model),
        stack=load_spec(ServingStack, "vllm"),
        serving=Serving(replicas=replicas, parallel=Layout(tp=tp, ep=ep)),
        requests=Requests(arrivals=Arrivals(at_once=True), count=4, lengths=lengths),
    )
    return resolve(scenario)[0]


def test_each_holds_its_share_of_the_experts() -> None:
    alone, shared = system(1).cost, system(2).cost
    model = load_spec(Model, "qwen3-30b-a3b")
    experts = 2.0 * 3 * model.hidden * (model.expert_ffn or 0) * (model.experts or 0) * model.layers
    assert alone.weights_bytes - shared.weights_bytes == pytest.approx(experts / 2)
    assert shared.blocks > alone.blocks


def test_fewer_weights_are_read_and_rows_are_sent() -> None:
    alone, shared = (system(ep).cost.stages[0] for ep in (1, 2))
    whole, own = alone.parts(64, 64), shared.parts(64, 64)
    assert (alone.common, alone.together(128, 128)) == (None, 0) and shared.common is not None
    common = by_part([shared.common[0](np.array([128]))])
    assert 0.4 * whole["linear"] < own["linear"] + common["linear"] < 0.8 * whole["linear"]
    assert whole["ep"] == own["ep"] == 0 < common["ep"]
    assert common["tp"] == 0
    assert shared.together(128, 128) == sum(common.values())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ep": 2, "model": "llama-3-8b"}, "dense model, without experts .*leave `ep` out"),
        ({"ep": 3, "replicas": 3}, "3 does not divide the 128 experts of .*write one of 2, 4, 8"),
        ({"ep": 2, "replicas": 3}, "3 replicas cannot share experts in groups of 2"),
        ({"ep": 2, "tp": 2}, "one device a stage"),
        ({"ep": 16, "replicas": 16}, "16 devices"),
    ],
)
def test_what_cannot_be_shared_is_said(changes: dict[str, int | str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        system(**changes)  # type: ignore[arg-type]
