"""Replicas over which the experts of a mixture are spread: what each holds, reads and sends."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.serving.costs.iteration import compile_costs
from simulator.serving.costs.pieces import by_part
from simulator.serving.fleet.system import System, resolve
from simulator.specs import load_spec
from simulator.specs.distribution import Distribution
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.requests import Arrivals, Lengths, Requests
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import KvCache, Layout, NumberFormats, Serving, ServingStack


def system(ep: int, replicas: int = 2, model: str = "qwen3-30b-a3b", tp: int = 1, etp: int | None = None) -> System:
    """Replicas on a DGX H100."""
    lengths = Lengths(prompt=Distribution(fixed=512), output=Distribution(fixed=64))
    scenario = ServingScenario(
        version=1,
        name="x",
        cluster=load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 1}),
        model=load_spec(Model, model),
        stack=load_spec(ServingStack, "vllm"),
        serving=Serving(replicas=replicas, parallel=Layout(tp=tp, ep=ep, etp=etp)),
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
        ({"ep": 16, "replicas": 16}, "16 devices"),
        ({"ep": 8, "tp": 2, "replicas": 2}, "2 replicas cannot share experts in groups of 4"),
    ],
)
def test_what_cannot_be_shared_is_said(changes: dict[str, int | str], words: str) -> None:
    with pytest.raises(InputError, match=words):
        system(**changes)  # type: ignore[arg-type]


def test_experts_of_one_replica_lie_whole_on_its_devices() -> None:
    """As many bytes as experts that are cut, the same sums over the group, and nothing sent to experts."""
    cut, whole = (system(ep, replicas=1, tp=4).cost for ep in (1, 4))
    assert whole.weights_bytes == cut.weights_bytes
    assert whole.stages[0].common is None
    own, spread = cut.stages[0].parts(64, 64), whole.stages[0].parts(64, 64)
    assert (spread["tp"], spread["ep"]) == (own["tp"], 0)
    assert spread["linear"] != own["linear"]


def test_attention_groups_share_experts() -> None:
    """Two groups of two devices hold a quarter of the experts each device, or halves of half of them."""
    spread, halved = (system(ep, tp=2, etp=etp).cost for ep, etp in ((4, None), (2, 2)))
    assert spread.weights_bytes == halved.weights_bytes < system(1, tp=2).cost.weights_bytes
    assert spread.stages[0].common is not None and halved.stages[0].common is not None


@pytest.mark.parametrize(
    ("tp", "ep", "etp", "sharers"), [(8, 8, None, 1), (8, 1, None, 1), (2, 8, None, 4), (1, 1, 4, 4)]
)
def test_replicas_that_share(tp: int, ep: int, etp: int | None, sharers: int) -> None:
    assert Layout(tp=tp, ep=ep, etp=etp).sharers == sharers


def test_both_meshes_have_the_same_devices() -> None:
    with pytest.raises(ValueError, match="etp 1 x ep 3 = 3 devices of a stage, attention on tp 2"):
        Layout(tp=2, ep=3)


def test_formats_of_experts_of_a_dense_model_have_no_effect() -> None:
    dense = system(1, replicas=1, model="llama-3-8b").cost
    assert not any("no effect" in text for text in dense.warnings)
    formats = NumberFormats(experts="fp8")
    scenario_model, stack = load_spec(Model, "llama-3-8b"), load_spec(ServingStack, "vllm")
    given = scenario_model, Layout(), formats, stack, load_spec(Cluster, "dgx-h100"), 4096, KvCache()
    found = compile_costs(*given, 8192, 256)
    assert "no effect: serving.precision.experts: Llama 3 8B has no experts" in found.warnings
    assert found.weights_bytes == dense.weights_bytes
