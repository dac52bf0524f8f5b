"""Tensor-parallel collectives beside kernels: in steps, tracked, one block late; times worked out by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from simulator.cost.device import compile_device
from simulator.errors import InputError
from simulator.model.blocks import predicting
from simulator.program.content import Comm
from simulator.program.piece import FREE, Piece, Takes
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.memory import all_chunks
from simulator.training.overlap.ladder import blocks
from simulator.training.pass_costs import ChunkPasses, LayerPasses, PassCosts, chunk_passes
from simulator.training.step import Chunks, Collective, Kernel
from tests import jobs

TP = 4


def job(ladder: bool = False, *, scattered: bool = True, software: str = "megatron-core", **training: Any) -> Job:
    shape = jobs.model(ladder_residual=ladder)
    asked = jobs.scenario(
        software=jobs.stack(software), shape=shape, tp=TP, dp=2, sequence_parallel=scattered, training=training
    )
    return build_job(asked)


def costs(found: Job, ticks: Callable[[Comm], int]) -> PassCosts:
    return PassCosts(found, compile_device(jobs.cluster().node.accelerator), ticks)


def passes(found: Job, ticks: Callable[[Comm], int]) -> LayerPasses:
    return costs(found, ticks).layers().of[found.kinds[0]]


def lasts(piece: Piece) -> int:
    return int(piece.lasts(np.ones(1))[0])


def only(operation: str, ticks: int) -> Callable[[Comm], int]:
    return lambda comm: ticks if comm.operation == operation and comm.axis == "tp" else 0


def products(found: Job) -> list[int]:
    """Ticks of one part of each product of a layer that has parts, in the order of the forward pass."""
    made = costs(found, lambda comm: 0)
    steps = operators.layer_forward(found, found.kinds[0])
    kernels = [next(one for one in s.steps if isinstance(one, Kernel)) for s in steps if isinstance(s, Chunks)]
    return [lasts(made.piece([one])) for one in kernels]


def test_in_steps_a_pass_runs_products_in_parts_and_no_gather_or_scatter_of_the_whole() -> None:
    found = job(overlap_tensor="steps")
    calls = passes(found, lambda comm: 1).forward.content.calls
    assert {call.comm.operation: call.runs for call in calls} == {"shift": 4 * (TP - 1)}
    size = 1024 * 1024 * 2 / TP
    assert {call.comm.size for call in calls} == {size}
    assert len(products(found)) == 4


def test_in_steps_what_is_longer_decides() -> None:
    """A part of a product lasts p, a message m: all four products hide their messages where m <= p; where m > p each
    lasts p + 3 m, that is 3 (m - p) longer."""
    found = job(overlap_tensor="steps")
    parts = products(found)
    alone = lasts(passes(found, lambda comm: 0).forward)
    assert lasts(passes(found, only("shift", min(parts))).forward) == alone
    long = 10 * max(parts)
    assert lasts(passes(found, only("shift", long)).forward) == alone + sum((TP - 1) * (long - p) for p in parts)


@pytest.mark.parametrize("how", ["all", "steps", "tracked"])
def test_what_is_gathered_of_results_waits_for_their_product(how: str) -> None:
    """A module that predicts a token further joins its rows by a product between two gathers: both would have been
    beside it, and steps of two collectives are none."""
    found = job(overlap_tensor=how)
    *_, product, last = operators.steps(found, predicting.joined(found.model, found.cut))
    assert isinstance(product, Chunks if how == "steps" else Kernel)
    assert isinstance(last, Collective) and last.name == "gather columns"


def test_products_over_user_buffers_are_scattered_in_parts() -> None:
    """A quarter of each of the two scatters of a layer follows its product; where a quarter lasts longer than a quarter
    of the product, all of it but what runs beside the first three."""
    found = job()
    parts = [step for step in operators.layer_forward(found, found.kinds[0]) if isinstance(step, Chunks)]
    assert [step.parts for step in parts] == [3, 3]
    whole = [4 * lasts(costs(found, lambda comm: 0).piece([step.steps[0]])) for step in parts]
    alone = lasts(passes(found, lambda comm: 0).forward)
    r = min(whole) // 5
    assert lasts(passes(found, only("reduce_scatter", r)).forward) == pytest.approx(alone + 2 * r, abs=4 * TP)
    long = max(whole)
    late = sum(4 * long - 3 * product / 4 for product in whole)
    assert lasts(passes(found, only("reduce_scatter", long)).forward) == pytest.approx(alone + late, abs=4 * TP)
    sent = [
        call for call in passes(found, lambda comm: 1).forward.content.calls if call.comm.operation == "reduce_scatter"
    ]
    assert sum(call.runs * call.comm.size for call in sent) == 2 * 1024 * 1024 * 2


def test_tracked_scatters_follow_the_tiles_of_one_kernel() -> None:
    """Only the two scatters of a layer are in steps; the gathers stay before their products."""
    found, plain = job(overlap_tensor="tracked"), job(overlap_tensor="none")
    parts = products(found)
    assert len(parts) == 2
    alone = lasts(passes(plain, lambda comm: 0).forward)
    assert lasts(passes(found, lambda comm: 0).forward) == pytest.approx(alone, abs=4 * TP)
    assert lasts(passes(found, only("all_gather", 5000)).forward) == pytest.approx(alone + 2 * 5000, abs=4 * TP)
    assert lasts(passes(found, only("shift", min(parts))).forward) == pytest.approx(alone, abs=4 * TP)
    long = 10 * max(parts)
    late = sum((TP - 1) * (long - part) for part in parts)
    assert lasts(passes(found, only("shift", long)).forward) == pytest.approx(alone + late, abs=4 * TP)


@pytest.mark.parametrize(("how", "takes"), [("tracked", FREE), ("steps", Takes(0.2, 0.1))])
def test_tracked_scatters_take_nothing_and_steps_what_copies_take(how: str, takes: Takes) -> None:
    found = job(overlap_tensor=how)
    device = compile_device(jobs.cluster().node.accelerator)
    made = PassCosts(found, device, only("shift", 100), lambda comm, bulk: Takes(0.2, 0.1))
    parts = made.layers().of[found.kinds[0]].forward.parts
    assert {part.takes for part in parts if part.lane == "tp"} == {takes}


@pytest.mark.parametrize("scattered", [False, True])
def test_a_layer_of_a_ladder_has_two_blocks(scattered: bool) -> None:
    found = job(ladder=True, scattered=scattered)
    both = blocks(operators.layer_ops(found, found.kinds[0]))
    assert [block[-1].name for block in both] == ["residual", "residual"]
    assert [op for block in both for op in block] == operators.layer_ops(found, found.kinds[0])


@pytest.mark.parametrize("one", ["forward", "backward", "input_gradient"])
@pytest.mark.parametrize("long", [False, True])
def test_sums_of_a_ladder_run_beside_the_block_after_theirs(one: str, long: bool) -> None:
    """A layer of blocks a and m with a sum of r each lasts max(a, r) + max(m, r); the first of a chunk a + max(m, r),
    and after the last one r is waited for."""
    found = job(ladder=True, scattered=False, software="megatron-lm-2021")
    bare = passes(found, lambda comm: 0)
    work = lasts(getattr(bare, one))
    r = 10 * work if long else work // 100
    own = passes(found, only("all_reduce", r))
    first, left = own.ends[one]
    assert lasts(left) == r
    assert lasts(getattr(own, one)) == (2 * r if long else work)
    if long:
        assert 0 < lasts(first) - r < work
    else:
        assert lasts(first) == work


def chunk(found: Job, ticks: Callable[[Comm], int]) -> ChunkPasses:
    (whole,) = all_chunks(found)
    return chunk_passes(found, whole, costs(found, ticks).layers())


def test_a_chunk_of_a_ladder_sends_what_any_other_sends() -> None:
    runs = []
    for ladder in (False, True):
        found = job(ladder=ladder, scattered=False, software="megatron-lm-2021")
        for pieces in chunk(found, lambda comm: 7)[:2]:
            called = [call for piece in pieces for call in piece.content.calls if call.comm.axis == "tp"]
            runs.append(sorted((call.comm.operation, call.comm.size, call.runs) for call in _merged(called)))
    assert runs[0] == runs[2]
    assert runs[1] == runs[3]


def _merged(calls: list[Any]) -> list[Any]:
    found: dict[Comm, Any] = {}
    for call in calls:
        found[call.comm] = call._replace(
            runs=call.runs + (found[call.comm].runs if call.comm in found else 0), exposed=0
        )
    return list(found.values())


@pytest.mark.parametrize("operation", ["none", "all", "steps", "tracked"])
@pytest.mark.parametrize("ticks", [10_000, 10_000_000])
def test_no_layout_beats_the_kernels_or_loses_to_one_by_one(operation: str, ticks: int) -> None:
    """Products in parts are compared with themselves without messages."""
    found = job(overlap_tensor=operation)
    for one in ("forward", "backward"):
        own = getattr(passes(found, lambda comm: ticks), one)
        sent = ticks * sum(call.runs for call in own.content.calls)
        alone = lasts(getattr(passes(found, lambda comm: 0), one))
        assert max(alone, sent if operation == "none" else 0) <= lasts(own) <= alone + sent


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"ladder": True, "overlap_tensor": "steps"}, "same collectives"),
        ({"scattered": False, "overlap_tensor": "steps"}, "sequence parallelism"),
        ({"scattered": False, "overlap_tensor": "tracked"}, "sequence parallelism"),
    ],
)
def test_what_is_not_simulated_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        job(**asked)


def test_overlap_without_tensor_parallelism_has_no_effect() -> None:
    alone = build_job(jobs.scenario(dp=8, training={"overlap_tensor": "steps"}))
    assert any("overlap_tensor" in text for text in alone.warnings)
