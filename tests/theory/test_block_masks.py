"""Attention to some blocks of keys only: what a mask leaves of the work, and where it is refused."""

from typing import Any

import pytest

from simulator.cost import compile_device, kernel_cost
from simulator.cost.work import Attention
from simulator.errors import InputError
from simulator.run.simulate import simulate
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario
from simulator.specs.model import BlockMask
from simulator.specs.scenario import ServingScenario
from simulator.training import flops, operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.step import Kernel, Step, Turn
from tests import jobs

DEVICE = compile_device(jobs.cluster().node.accelerator)


def scenario(mask: dict[str, Any] | None, training: dict[str, Any] | None = None, **changes: Any) -> Any:
    shape = jobs.model(**({"block_mask": mask} if mask else {}))
    return jobs.scenario(shape=shape, sequence=16_384, training={"attention": "fused", **(training or {})}, **changes)


def attention(job: Job) -> list[float]:
    """FLOPs of the attention of a layer's forward pass, of each turn of the slowest rank."""
    return [most for step in operators.layer_forward(job, jobs.LAYER) if (most := _flops(step))]


def _flops(step: Step) -> float:
    ranks = step.ranks if isinstance(step, Turn) else ((step.work,),) if isinstance(step, Kernel) else ()
    return max((sum(work.flops for work in works if isinstance(work, Attention)) for works in ranks), default=0.0)


@pytest.mark.parametrize(
    ("mask", "length", "share"),
    [
        ({"density": 0.25}, 16_384, 0.25),
        ({"local_blocks": 1}, 1280, 10 / 55),
        ({"local_blocks": 3}, 1280, (1 + 2 + 8 * 3) / 55),
        ({"local_blocks": 2, "global_blocks": 1}, 1280, (1 + 2 + 8 * 3) / 55),
        ({"local_blocks": 100}, 1280, 1.0),
        ({"block": 64, "local_blocks": 1}, 1280, 20 / 210),
    ],
)
def test_blocks_that_are_left_are_counted_by_hand(mask: dict[str, Any], length: int, share: float) -> None:
    assert BlockMask.model_validate(mask).share(length) == pytest.approx(share)


@pytest.mark.parametrize(
    "parallel", [{}, *({"cp": 4, "cp_kind": kind} for kind in ("zigzag", "all-gather", "ulysses"))]
)
def test_work_and_flops_shrink_by_the_density(parallel: dict[str, Any]) -> None:
    full, quarter = (build_job(scenario(mask, **parallel)) for mask in (None, {"density": 0.25}))
    assert attention(quarter) == pytest.approx([0.25 * turn for turn in attention(full)])
    assert flops.attention_flops(quarter, jobs.LAYER) == 0.25 * flops.attention_flops(full, jobs.LAYER)


def test_time_of_long_sequences_follows_the_blocks_that_are_left() -> None:
    full, eighth = (
        kernel_cost(Attention(1, 16, 16, 65_536, 65_536, 128, True, density=density), DEVICE)
        for density in (1.0, 1 / 8)
    )
    assert eighth.seconds / full.seconds == pytest.approx(1 / 8, rel=0.1)
    assert full.valid and not eighth.valid


def test_a_step_is_quicker_and_says_that_the_kernel_was_not_measured() -> None:
    full, sparse = (simulate(scenario(mask, devices=1, batch=1)) for mask in (None, {"local_blocks": 8}))
    assert sparse.metrics["step_time_s"] < 0.8 * full.metrics["step_time_s"]
    assert any("attention" in words for words in sparse.warnings)


def test_local_blocks_are_whole_under_ulysses_and_refused_where_sequences_stay_cut() -> None:
    mask = {"local_blocks": 8}
    whole = attention(build_job(scenario(mask)))
    assert attention(build_job(scenario(mask, cp=4, cp_kind="ulysses"))) == pytest.approx([whole[0] / 4])
    for kind in ("ring", "zigzag", "all-gather", "usp"):
        with pytest.raises(InputError, match="`local_blocks` leaves ranks unequal work"):
            build_job(scenario(mask, cp=4, cp_kind=kind))


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"block_mask": {"block": 128}}, "one of the two"),
        ({"block_mask": {"density": 0.5, "local_blocks": 2}}, "one of the two"),
        ({"block_mask": {"density": 0.5, "global_blocks": 2}}, "goes with `local_blocks`"),
        ({"block_mask": {"density": 0.5}, "window": 128}, "without `window`"),
    ],
)
def test_masks_that_say_too_little_or_too_much_are_refused(shape: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        jobs.model(**shape)


@pytest.mark.parametrize("training", [{"documents": {"fixed": 512}}, {"causal": False}])
def test_masks_are_about_causal_sequences_of_one_document(training: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="causal sequences of one document"):
        build_job(scenario({"density": 0.5}, training))


def test_serving_refuses_them() -> None:
    found = load_scenario("scenarios/serving/quickstart.yaml", ["model.block_mask={density: 0.5}"]).scenario
    assert isinstance(found, ServingScenario)
    with pytest.raises(InputError, match="not served yet"):
        resolve(found)
