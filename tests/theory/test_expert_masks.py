"""Products with masks that bring rows to experts, against GShard's einsums by hand."""

from typing import Any

import pytest

from simulator.cost.work import Gemm
from simulator.errors import InputError
from simulator.interop.rows.experts import routing
from simulator.interop.rows.training import Row
from simulator.model.tensors import kept
from simulator.specs.training import RouterLoad
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.step import Kernel
from tests import jobs

SHAPE = jobs.model(experts=16, top_k=4, expert_ffn=512)
HELD = {"capacity": 1.25, "padded": True}


def job(masks: str | None, dispatcher: str | None = None, **layout: int) -> Job:
    load: dict[str, Any] = HELD | ({"masks": masks} if masks else {})
    changes = {"routing": load, "dispatcher": dispatcher}
    software = jobs.stack("megatron-core")
    return build_job(jobs.scenario(shape=SHAPE, software=software, micro=2, training=changes, **layout))


def products(built: Job, backward: bool) -> list[Gemm]:
    passes = operators.layer_backward if backward else operators.layer_forward
    steps = operators.each(passes(built, built.model.kinds[0]))
    found = [step for step in steps if isinstance(step, Kernel) and step.name in ("permute", "unpermute")]
    return [step.work for step in found if isinstance(step.work, Gemm)]


@pytest.mark.parametrize(("masks", "groups"), [("sequence", 2), ("microbatch", 1)])
def test_every_slot_is_summed_over_all_rows_of_its_group(masks: str, groups: int) -> None:
    """BSM,BSEC -> EBCM and back: one product each forward; backward the weights of the way back need one more."""
    built = job(masks)
    rows = built.tokens // groups
    slots = round(rows * 4 * 1.25)
    forward, backward = products(built, False), products(built, True)
    assert [(one.m, one.k, one.batch) for one in forward] == [(slots, rows, groups), (rows, slots, groups)]
    assert all(one.n == built.model.hidden for one in forward)
    each = 2.0 * built.tokens * slots * built.model.hidden
    assert [one.flops for one in (*forward, *backward)] == pytest.approx([each] * 5)


def test_copies_of_rows_need_no_products() -> None:
    assert products(job(None), False) == []


def test_a_group_is_what_a_rank_has_of_a_sequence() -> None:
    """Where tensor parallelism cuts the rows, each rank has masks for its own."""
    assert job("sequence").cut.group == 2 * (job("sequence", tp=2).cut.group or 0) == job("sequence").sequence


def test_masks_and_what_returns_are_kept() -> None:
    """Of a row: the mask in two formats, and what its slots hold after the experts."""
    built = job("sequence")
    found = {(one.name, one.form): one.elements for one in kept(operators.layer_ops(built, built.model.kinds[0]))}
    slots = 4 * 1.25
    assert found["masks", "plain"] == found["masks", "mask"] == slots * built.sequence
    assert found["unpermute", "plain"] == slots * built.model.hidden


def test_masks_without_slots_are_refused() -> None:
    for given in ({"masks": "sequence"}, {"masks": "sequence", "capacity": 1.0}, {"masks": "sequence", "padded": True}):
        with pytest.raises(ValueError, match="write `capacity` and `padded: true`"):
            RouterLoad.model_validate(given)


def test_libraries_that_merge_copies_cannot_use_masks() -> None:
    with pytest.raises(InputError, match="merges the copies of a row"):
        job("sequence", dispatcher="deepep", ep=4)


def test_rows_of_maxtext_with_a_capacity_have_masks() -> None:
    """Other frameworks that drop rows copy the rest."""
    row = {"id": "a", "source": "s", "primary_metric": "step_s", "model": "m", "device": "TPU-v6e", "devices": 4}
    row |= {
        "hidden": 64,
        "layers": 2,
        "heads": 4,
        "vocab": 100,
        "seq_len": 64,
        "global_batch": 4,
        "step_s": 1.0,
        "precision": "bf16",
    }
    row |= {"experts": 8, "topk": 2, "flags": "token drop, capacity_factor=1.25"}
    found = [
        routing(Row.model_validate(row | {"framework": name}), []) for name in ("MaxText (JAX)", "Megatron-Bridge")
    ]
    assert [(load.capacity, load.padded, load.masks) for load in found] == [
        (1.25, True, "sequence"),
        (1.25, True, None),
    ]
