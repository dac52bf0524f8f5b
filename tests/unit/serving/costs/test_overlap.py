"""What iterations save where collectives run beside kernels."""

from typing import Any

import pytest

from simulator.errors import InputError
from simulator.results.result import Result
from simulator.run.dispatch import simulate
from simulator.serving.costs.iteration import ReplicaCost, StageCost, compile_costs
from simulator.specs import load_scenario, load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.serving import KvCache, Layout, NumberFormats, Overlap
from simulator.units import to_ticks
from tests.unit.serving.costs.test_iteration import stack

LADDER = {"ladder_residual": True}


def replica(
    model: str = "llama-3-70b", change: dict[str, Any] | None = None, *, tp: int = 8, ep: int = 1, **overlap: Any
) -> ReplicaCost:
    shape = load_spec(Model, model).model_copy(update=change or {})
    engine, cluster = stack(all_reduce="library", graphs=8192), load_spec(Cluster, "dgx-h100")
    rest = NumberFormats(), engine, cluster, 4096, KvCache(), 8192, 256
    return compile_costs(shape, Layout(tp=tp, ep=ep), *rest, None, False, Overlap(**overlap))


def stage(*args: Any, **overlap: Any) -> StageCost:
    return replica(*args, **overlap).stages[0]


def test_nothing_is_saved_unless_it_is_asked_for() -> None:
    assert stage().overlap is None
    assert stage().saved(4096, 10**9) == 0


@pytest.mark.parametrize("rows", [1, 64, 4096])
def test_ladder_hides_sums_behind_the_blocks_after_them(rows: int) -> None:
    """Never more than all sums, and all but the last where each is shorter than the blocks."""
    own = stage("llama-3-70b", LADDER)
    parts = own.parts(rows, 1)
    saved = own.saved(rows, 0)
    assert 0 < saved <= parts["tp"]
    long = own.saved(rows, to_ticks(10.0))  # attention that any sum is hidden behind; an MLP still may not be
    assert saved <= long <= parts["tp"]
    if rows == 1:  # 159 of the 160 sums of layers; the one of the embedding and the gather of logits are not theirs
        (send,) = (one for one in own.sends if one.operation == "all_reduce")
        assert long == pytest.approx(159 * to_ticks(send.sizes.one(send.size(rows))), rel=1e-6)


def test_ladder_without_tensor_parallelism_is_the_model_as_it_is() -> None:
    one, plain = stage("llama-3-8b", LADDER, tp=1), stage("llama-3-8b", tp=1)
    assert one.overlap is None
    assert one.rows(100, 1) == plain.rows(100, 1)


def test_long_products_in_steps_hide_sums_and_short_ones_read_their_weights_again() -> None:
    steps = stage(tensor="steps")
    assert 0.3 * steps.parts(8192, 1)["tp"] < steps.saved(8192, 0) < steps.parts(8192, 1)["tp"]
    assert steps.saved(8, 0) < -steps.parts(8, 1)["linear"]
    late = stage(tensor="steps", from_rows=1024)
    assert (late.saved(1023, 0), late.saved(1024, 0)) == (0, steps.saved(1024, 0))


def test_tracked_sums_hide_their_first_half_without_cutting_the_product() -> None:
    tracked, steps = stage(tensor="tracked"), stage(tensor="steps")
    assert 0 < tracked.saved(8192, 0) < tracked.parts(8192, 1)["tp"]
    assert steps.saved(512, 0) < tracked.saved(512, 0)


def test_two_batches_hide_what_is_longer_than_reading_weights_twice() -> None:
    two = stage(batches="two")
    assert two.saved(8192, 0) > 0.5 * two.parts(8192, 1)["tp"]
    assert two.saved(16, 0) < 0
    assert two.saved(1, 0) == 0


def test_two_batches_of_replicas_that_share_experts_hide_exchanges() -> None:
    two = stage("deepseek-v3", tp=1, ep=8, batches="two")
    exchanged = two.parts(4096, 1)["ep"]
    assert 0 < two.saved(4096, 0) <= exchanged
    assert two.saved(4096, to_ticks(0.2)) >= two.saved(4096, 0)


@pytest.mark.parametrize(
    ("change", "overlap"),
    [
        (LADDER, {"tensor": "steps"}),
        (LADDER, {"batches": "two"}),
        ({}, {"tensor": "steps", "batches": "two"}),
        (LADDER | {"prompt_layers": 40}, {}),
        ({"parallel_mlp": True}, {"tensor": "steps"}),
    ],
)
def test_layouts_that_are_not_simulated_together_are_refused(change: dict[str, Any], overlap: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"simulated|one sum"):
        stage("llama-3-70b", change, **overlap)


def test_what_has_no_effect_is_said() -> None:
    assert any("no tensor parallelism" in text for text in replica("llama-3-8b", tp=1, tensor="steps").warnings)
    assert any("no collectives" in text for text in replica("llama-3-8b", tp=1, batches="two").warnings)


def test_launches_of_the_host_bound_what_is_saved_without_graphs() -> None:
    shape = load_spec(Model, "llama-3-70b").model_copy(update=LADDER)
    slow = stack(all_reduce="library", graphs=None, kernel_launch="50 us")
    cluster = load_spec(Cluster, "dgx-h100")
    own = compile_costs(shape, Layout(tp=8), NumberFormats(), slow, cluster, 4096, KvCache(), 8192, 256).stages[0]
    assert own.saved(8, 0) == 0


def run(*changes: str) -> Result:
    return simulate(load_scenario("scenarios/serving/deepseek-v3.yaml", changes).scenario)


@pytest.mark.parametrize("spread", [(), ("serving.replicas=8", "serving.parallel.tp=1", "+serving.parallel.ep=8")])
def test_parts_of_replicas_that_run_two_batches_are_all_their_time(spread: tuple[str, ...]) -> None:
    plain, two = (run("requests.count=40", *spread, *more) for more in ((), ("+serving.overlap.batches=two",)))
    for result in (plain, two):
        assert result.service is not None
        for replica in result.service.replicas:
            assert sum(replica.parts.values()) == pytest.approx(replica.busy)
    assert plain.metrics["duration"] != two.metrics["duration"]
