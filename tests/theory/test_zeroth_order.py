"""Steps of forward passes alone: what they keep, how long they last, what they send, and how layers come and go."""

from typing import Any

import pytest

from simulator.cost import Stream, compile_device, kernel_cost
from simulator.errors import InputError
from simulator.program import codes as d
from simulator.results.result import Result
from simulator.run.simulate import simulate
from simulator.training import memory
from simulator.training.build import build_job
from simulator.training.passes.offload import IN, OUT
from tests import jobs
from tests.theory import test_offload as tiers


def step(asked: dict[str, Any] | None = None, more: dict[str, Any] | None = None, **shape: Any) -> Result:
    training = {"zeroth_order": asked or {}} | (more or {})
    return simulate(jobs.scenario(training=training, **{"batch": 8, **shape}))


def test_nothing_but_parameters_and_what_is_worked_on_is_kept() -> None:
    trained, moved = (simulate(jobs.scenario(batch=8, training=t)).memory[0] for t in (None, {"zeroth_order": {}}))
    assert {"gradients", "optimizer", "activations"} <= {k for k, v in trained.at_peak.items() if v}
    assert {k for k, v in moved.at_peak.items() if v} == {"parameters", "working", "runtime"}
    assert moved.at_peak["parameters"] == trained.at_peak["parameters"]
    assert step(batch=64).memory[0].peak == moved.peak, "passes of more microbatches keep nothing either"


def test_every_further_pass_costs_a_pass_and_a_sweep() -> None:
    two, three, four = (step({"passes": n}).metrics["step_time_s"] for n in (2, 3, 4))
    assert three - two == pytest.approx(four - three, rel=1e-6)
    one, more = (step({"passes": 2}, batch=n).metrics["step_time_s"] for n in (8, 16))
    assert 0 < more - one < one


def test_utilisation_counts_passes() -> None:
    """Two forward passes are two thirds of a step with gradients."""
    plain = simulate(jobs.scenario(batch=8)).metrics
    found = step().metrics
    flops = [one["mfu"] * one["step_time_s"] for one in (plain, found)]
    assert flops[1] == pytest.approx(flops[0] * 2 / 3)
    assert found["hfu"] == pytest.approx(found["mfu"])


def test_each_sample_may_have_a_direction_of_its_own() -> None:
    """Each adds a sweep over all parameters of a rank: direction written and read, parameters read and written."""
    job = build_job(jobs.scenario(batch=8, training={"zeroth_order": {}}))
    owned = sum(memory.parameters(job, chunk) for chunk in memory.all_chunks(job))
    size = 2 * job.element * owned
    sweep = kernel_cost(Stream(size, size, kernels=2), compile_device(jobs.cluster().node.accelerator)).seconds
    one, every = (step({"directions": of}).metrics["step_time_s"] for of in ("step", "sample"))
    assert every - one == pytest.approx(7 * sweep, rel=0.01)


def test_ranks_send_a_number_a_sample() -> None:
    """An all-gather of as many bytes as samples, whatever the model is; of 16 ranks in a ring a node is left once."""
    for shape in (None, jobs.model(layers=16)):
        found = step({"scalar_bytes": 1}, nodes=2, batch=32, shape=shape)
        (card,) = (load for load in found.links if load.name == "NIC up")
        assert set(card.by_operation) == {"optimizer"}
        assert sum(card.by_operation.values()) <= 32


def test_passes_on_ranks_of_their_own_share_a_microbatch() -> None:
    apart, together = step({"over_ranks": True}, devices=2, batch=4), step(devices=2, batch=8)
    assert apart.metrics["tokens_per_s"] == pytest.approx(together.metrics["tokens_per_s"], rel=0.2)
    alone = step(devices=1, batch=4).metrics["step_time_s"]
    assert alone / 2 < apart.metrics["step_time_s"] < alone


def test_layers_come_and_go_once_a_microbatch() -> None:
    """All parameters cross the host's link once each way. Where it is slow, the first layer comes, with the embedding,
    and from there on the way out is full."""
    asked = tiers.scenario({"parameters": {}}, training={"zeroth_order": {}, "recompute": None}, devices=1, batch=1)
    done = tiers.run(asked)
    job = done.job
    owned = sum(memory.parameters(job, chunk) for chunk in memory.all_chunks(job))
    moved = {(lane, name): size for (_, _, lane, name), size in done.program.moved.items()}
    assert moved == {
        (IN, d.KINDS[d.FETCH_PARAMETERS]): pytest.approx(owned * job.element),
        (OUT, d.KINDS[d.STORE_PARAMETERS]): pytest.approx(owned * job.element),
    }
    assert done.steps.mean_s >= owned * job.element / 20e9
    slower = tiers.scenario(
        {"parameters": {}}, training={"zeroth_order": {}, "recompute": None}, devices=1, batch=1, link=2e9
    )
    first = memory.piece_bytes(job, memory.pieces_of(memory.all_chunks(job)[0])[0])["parameters"]
    assert tiers.run(slower).steps.mean_s == pytest.approx((first + owned * job.element) / 2e9, rel=0.02)


@pytest.mark.parametrize(
    ("more", "parallel", "said"),
    [
        ({"schedule": "1f1b"}, {}, "has backward passes"),
        ({"recompute": "full"}, {}, "`recompute` has no meaning"),
        ({"optimizer": "adam"}, {}, "`optimizer` has no meaning"),
        ({"local_steps": {"inner": 4}}, {}, "`local_steps` has no meaning"),
        ({"offload": {"activations": {}}}, {}, "are not there"),
        ({"overlap_experts": True}, {}, "run beside backward passes"),
        ({}, {"zero": 1}, "nothing but parameters is sharded"),
        ({"zeroth_order": {"passes": 3, "over_ranks": True}}, {}, "3 passes on ranks of their own do not divide dp 8"),
    ],
)
def test_what_has_no_meaning_is_refused(more: dict[str, Any], parallel: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        build_job(jobs.scenario(training={"zeroth_order": {}} | more, **parallel))


def test_forward_passes_alone_are_no_step_with_gradients() -> None:
    with pytest.raises(InputError, match="give no gradients"):
        build_job(jobs.scenario(training={"schedule": "forward-only"}))
