"""How evenly a router spreads rows over experts and devices."""

from typing import Any

import pytest

from simulator.cost import Gemm
from simulator.errors import InputError
from simulator.model.cut import Routing
from simulator.run.simulate import simulate
from simulator.specs.model import Model
from simulator.specs.training import RouterLoad
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.experts.routing import routing
from simulator.training.step import Kernel
from tests import jobs

SHAPE = jobs.model(experts=8, top_k=2)


def spread(devices: int = 4, rows: float = 4096, **load: object) -> Routing:
    return routing(RouterLoad.model_validate(load), SHAPE, devices, rows, seed=1)[0]


def test_an_even_load_keeps_everybody_as_busy() -> None:
    assert spread()[:2] == pytest.approx((1, 1))
    assert routing(RouterLoad(), SHAPE, 4, 4096, 1)[1] == ()


def test_the_busiest_device_holds_the_heaviest_experts() -> None:
    counts = [4, 2, 1, 1, 0, 0, 0, 0]
    assert spread(load="counts", counts=counts)[:2] == pytest.approx((1, 4 * 6 / 8))
    assert spread(load="counts", counts=counts, placement="packed")[:2] == pytest.approx((1, 4 * 4 / 8))
    assert spread(devices=1, load="counts", counts=counts)[:2] == pytest.approx((1, 1))


def test_zipf_falls_with_its_exponent() -> None:
    assert spread(load="zipf", exponent=0)[:2] == pytest.approx((1, 1))
    loads = [spread(load="zipf", exponent=exponent).busiest for exponent in (0.5, 1.0, 2.0)]
    assert loads == sorted(loads)
    assert spread(load="zipf").busiest == pytest.approx(4 * (1 + 1 / 2) / sum(1 / n for n in range(1, 9)))


def test_free_choices_are_nearly_even_for_many_rows() -> None:
    few, many = (spread(load="random", rows=rows).busiest for rows in (32, 1_000_000))
    assert 1 < many < 1.01 < few
    assert spread(load="random", rows=32).busiest == few


def test_uneven_choices_stay_uneven_for_many_rows() -> None:
    calm, usual, wide = (
        spread(load="uneven", rows=1_000_000, variance=variance).busiest for variance in (0.001, 0.5, 5.0)
    )
    assert 1 < calm < 1.1 < usual < wide


def test_capacity_drops_what_finds_no_room_or_fills_up() -> None:
    counts = [4, 2, 1, 1, 0, 0, 0, 0]
    dropped = spread(load="counts", counts=counts, capacity=1.0)
    assert dropped[:2] == pytest.approx((1 / 8 + 1 / 8 + 1 / 8 + 1 / 8, 4 * 2 / 8))
    assert spread(load="counts", counts=counts, capacity=1.25, padded=True)[:2] == pytest.approx((1.25, 1.25))


def test_copies_of_heavy_experts_lie_on_the_lightest_devices() -> None:
    """Shares of 4, 2, 1, 1 on four devices of two: (6, 2, 0, 0); three copies of the first and one of the second leave
    1 + 1 on the first, and 1 more on the three others."""
    found = spread(load="counts", counts=[4, 2, 1, 1, 0, 0, 0, 0], replicas=1)
    assert found.copies == 1
    assert found.busiest == pytest.approx(4 * 3 / 8)
    packed = spread(load="counts", counts=[4, 2, 1, 1, 0, 0, 0, 0], replicas=1, placement="packed")
    assert packed.busiest == pytest.approx(1)


def test_rows_go_to_a_copy_on_their_own_device_first() -> None:
    """Experts on one of four devices leave 3/4 of their rows to travel, those on all none."""
    found = spread(load="counts", counts=[1, 0, 0, 0, 0, 0, 0, 0], replicas=1)
    assert (found.busiest, found.travels) == pytest.approx((1, 0))
    assert spread(load="zipf", replicas=2).travels < spread(load="zipf", replicas=1).travels < 1
    assert spread(load="zipf").travels == spread().travels == 1


@pytest.mark.parametrize(
    ("load", "path", "words"),
    [
        ({"load": "counts", "counts": [1, 2]}, "training.routing.counts", "2 numbers for the 8 experts"),
        ({"load": "counts", "counts": [0] * 8}, "training.routing.counts", "for the 8 experts"),
        ({"capacity": 0.1}, "training.routing.capacity", "less than one"),
        ({"replicas": 7}, "training.routing.replicas", "7 replicas a device of 8 experts, of which it owns 2"),
    ],
)
def test_loads_that_do_not_fit(load: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        spread(rows=8, **load)
    assert caught.value.problems[0].path == path


@pytest.mark.parametrize(
    ("word", "message", "hint"),
    [
        ("deepeb", "there is no exchange library `deepeb`", "did you mean `deepep`?"),
        ("carrier-pigeon", "there is no exchange library", "write one of alltoall, hierarchical, allgather"),
        ("nccl-h100", "the library `nccl-h100` dispatches no tokens", "write one of alltoall"),
    ],
)
def test_a_library_that_sends_no_rows_to_experts_is_refused_where_it_is_written(
    word: str, message: str, hint: str
) -> None:
    with pytest.raises(InputError) as caught:
        build_job(jobs.scenario(shape=SHAPE, ep=2, training={"dispatcher": word}))
    (problem,) = caught.value.problems
    assert (problem.path, problem.message.startswith(message)) == ("training.dispatcher", True)
    assert problem.hint.startswith(hint)


def test_a_stack_names_its_own_library() -> None:
    software = jobs.stack("megatron-core", dispatcher="nosuch")
    with pytest.raises(InputError) as caught:
        build_job(jobs.scenario(software=software, shape=SHAPE, ep=2))
    assert caught.value.problems[0].path == "stack.dispatcher"


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"counts": [1.0] * 8}, "no effect: routing.counts: routing.load is balanced"),
        ({"padded": True}, "no effect: routing.padded: there is no routing.capacity"),
        (
            {"placement": "packed"},
            "no effect: routing.placement: routing.load is balanced, so that no expert is heavy",
        ),
    ],
)
def test_keys_of_a_router_without_effect(load: dict[str, object], words: str) -> None:
    job = build_job(jobs.scenario(shape=SHAPE, ep=2, training={"routing": load}))
    assert words in job.warnings


@pytest.mark.parametrize("load", [{"load": "zipf"}, {"load": "zipf", "placement": "packed"}, {"load": "random"}])
def test_loads_of_experts_that_lie_on_one_device_have_no_effect(load: dict[str, Any]) -> None:
    one, usual = (jobs.scenario(shape=SHAPE, training={"routing": routing}) for routing in (load, {}))
    assert "no effect: routing.load: ep is 1: a device has all experts" in build_job(one).warnings
    assert simulate(one).metrics == simulate(usual).metrics
    assert not build_job(jobs.scenario(shape=SHAPE, ep=2, training={"routing": load})).warnings


DENSE = [
    ({"routing": {"replicas": 1}}, "routing: small has no experts"),
    ({"cuda_graphs": ["router"]}, "cuda_graphs: router: small has no experts"),
    ({"recompute_modules": ["experts"], "recompute": "selective"}, "recompute_modules: experts: small has no experts"),
    ({"recompute_modules": ["latent"], "recompute": "selective"}, "recompute_modules: latent: small has no latent"),
    ({"dispatcher": "hierarchical"}, "dispatcher: no rows are exchanged"),
    ({"dispatch_precision": "fp8"}, "dispatch_precision: no rows are exchanged"),
    ({"algorithms": {"ep": "ring"}}, "algorithms.ep: no rows are exchanged"),
]


@pytest.mark.parametrize(("training", "words"), DENSE)
def test_keys_of_parts_that_a_model_lacks_are_said_to_have_no_effect(training: dict[str, Any], words: str) -> None:
    scenario = jobs.scenario(training=training)
    assert any(said.startswith(f"no effect: {words}") for said in build_job(scenario).warnings)
    usual = {"recompute": training["recompute"]} if "recompute" in training else {}
    assert simulate(scenario).metrics == simulate(jobs.scenario(training=usual)).metrics


def test_shared_experts_that_are_not_there_do_not_work_beside_exchanges() -> None:
    training = {"overlap_shared_experts": True, "routing": {"exponent": 2.0, "variance": 0.3}}
    warnings = build_job(jobs.scenario(shape=SHAPE, ep=2, training=training)).warnings
    assert "no effect: overlap_shared_experts: small has no shared experts" in warnings
    assert "no effect: routing.exponent: routing.load is balanced" in warnings
    assert "no effect: routing.variance: routing.load is balanced" in warnings


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"experts": 8, "top_k": 2, "expert_groups": 3}, "expert_groups 3 does not divide the 8 experts"),
        ({"experts": 8, "top_k": 2, "expert_group_limit": 2}, "expert_group_limit 2 is more than the expert_groups, 1"),
    ],
)
def test_sizes_of_groups_that_do_not_fit(sizes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        jobs.model(**sizes)


@pytest.mark.parametrize("shape", [SHAPE, None])
def test_uneven_numbers_of_rows_do_not_slow_gradients_of_weights(shape: Model | None) -> None:
    """Rows are not what lies side by side: one more is no product at a fourth of the rate, of experts nor of others."""
    job = build_job(jobs.scenario(shape=shape, sequence=1023, **({"ep": 2} if shape else {})))
    steps = operators.layer_backward(job, job.kinds[0])
    kernels = [step for step in steps if isinstance(step, Kernel) and step.weight_gradient]
    summed = [kernel.work.k for kernel in kernels if isinstance(kernel.work, Gemm)]
    assert summed
    assert all(k % 16 == 0 for k in summed)
