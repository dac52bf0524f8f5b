"""Steps in which the attention of documents is spread over all data-parallel ranks: DistCA."""

from typing import Any

import pytest
from pydantic import ValidationError

from simulator.errors import InputError
from simulator.run.simulate import run, simulate
from simulator.specs.batching import Batching
from simulator.specs.scenario import Scenario
from simulator.specs.training import Documents
from simulator.training import flops
from simulator.training.build import build_job
from simulator.training.context.shards import SHARDS
from simulator.training.operators import layer_backward, layer_forward
from simulator.training.step import Collective
from tests import jobs

TAIL = {"lognormal": [1000, 1.5], "high": 32768}
OWN: dict[str, Any] = {"policy": "first-fit"}
SPREAD = {**OWN, "disaggregated": 0.1}


def scenario(batching: Any, documents: Any = TAIL, **more: Any) -> Scenario:
    given: dict[str, Any] = {
        "attention": "fused",
        "batching": Batching.model_validate(batching),
        "documents": Documents.model_validate(documents),
    }
    shape: dict[str, Any] = {"sequence": 32768, "batch": 16, "nodes": 2, "tp": 2}
    return jobs.scenario(training=given | more.pop("training", {}), **(shape | more))


def test_ranks_work_about_as_much_as_the_mean() -> None:
    own, spread = (simulate(scenario(batching)).metrics for batching in (OWN, SPREAD))
    assert spread["rank_imbalance"] < 1.1 < own["rank_imbalance"]
    assert spread["straggler_fraction"] < 0.3 * own["straggler_fraction"]
    assert spread["step_time_s"] < own["step_time_s"]


def test_work_is_the_same_wherever_it_is_done() -> None:
    own, spread = (build_job(scenario(batching)) for batching in (OWN, SPREAD))
    assert flops.model_flops(own) == flops.model_flops(spread)
    assert flops.hardware_flops(own) == pytest.approx(flops.hardware_flops(spread), rel=1e-12)


def test_ping_pong_hides_what_travels() -> None:
    """Beside the other half's work, as far as that is longer; before and after attention else."""
    turns, plain = (simulate(scenario({**SPREAD, "ping_pong": on})).metrics for on in (True, False))
    assert turns["exposed_communication_s"] < 0.3 * plain["exposed_communication_s"]
    assert turns["step_time_s"] < plain["step_time_s"]


def test_equal_documents_send_nothing() -> None:
    """Every rank has the same packs, so that nothing moves and nothing is gained."""
    given = ({"policy": "cut"}, {"policy": "cut", "disaggregated": 0.1})
    own, spread = (simulate(scenario(batching, [16384, 8192, 8192] * 16)).metrics for batching in given)
    assert spread == pytest.approx(own, rel=1e-9)


def test_what_travels_by_hand() -> None:
    """One document of 32,768 tokens beside two of 16,384 of another rank: of 2^28 pairs more than the mean 2^27 move,
    the last 32,768 (1 - sqrt(3 / 4)) queries over all keys; heads of 64 elements on two tensor-parallel ranks."""
    of = scenario({"policy": "cut", "disaggregated": 0.01}, [32768, 16384, 16384], devices=4, nodes=1, batch=2)
    job = build_job(of)
    assert job.batch is not None
    shape = job.batch.shapes[job.batch.rows[0][0]]
    queries = 32768 * (1 - (3 / 4) ** 0.5)
    assert shape.moved == (pytest.approx(queries, abs=1), 32768)
    own = job.shaped(shape)
    sizes = {
        way: [step.size for step in steps(own, jobs.LAYER) if isinstance(step, Collective) and step.name == SHARDS]
        for way, steps in (("forward", layer_forward), ("backward", layer_backward))
    }
    row = 8 * 64 * 2
    asked, seen = shape.moved[0] * row, shape.moved[1] * 2 * row
    assert sizes == {"forward": [asked + seen, asked], "backward": [3 * asked + seen, asked + seen]}


@pytest.mark.parametrize("layout", [{}, {"pp": 2}, {"zero": 1}])
def test_folding_changes_nothing_and_parts_add_up(layout: dict[str, Any]) -> None:
    exact, none = (simulate(scenario(SPREAD, **layout), fold=fold) for fold in ("exact", "none"))
    assert exact.metrics == pytest.approx(none.metrics, rel=1e-9)
    step = exact.metrics["step_time_s"]
    assert all(sum(parts.values()) == pytest.approx(step, rel=1e-9) for parts in exact.breakdown)


def test_all_ranks_begin_a_microbatch_together() -> None:
    done = run(scenario(SPREAD), fold="none")
    costs = done.classes.costs
    assert all(len(classes) == len(costs) for chain in costs for classes in chain.meets)  # those of a tensor group too


@pytest.mark.parametrize(
    ("given", "more", "message"),
    [
        (SPREAD, {"cp": 2}, "cp 2: documents are spread over data-parallel ranks"),
        (SPREAD, {"training": {"causal": False}}, "only causal attention over whole documents"),
        (SPREAD, {"shape": jobs.model(window=512)}, "only causal attention over whole documents"),
    ],
)
def test_what_is_not_spread_is_refused(given: Any, more: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_job(scenario(given, **more))


@pytest.mark.parametrize(
    "given",
    [
        {"policy": "pad", "disaggregated": 0.1},
        {"policy": "hybrid", "capacity": 8, "disaggregated": 0.1},
        {"policy": "first-fit", "fill": "context", "disaggregated": 0.1},
        {"policy": "first-fit", "disaggregated": 0.0},
        {"policy": "first-fit", "ping_pong": False},
    ],
)
def test_keys_that_do_not_go_together_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Batching.model_validate(given)
