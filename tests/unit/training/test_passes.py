"""What stands in a program: which collective runs when, and what waits for it."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.program import codes as d
from simulator.run.simulate import Run, run
from simulator.specs.scenario import Scenario
from tests import jobs

OVERLAP = {"overlap_gradients": True, "overlap_parameters": True}


def operations(found: Run, kind: int) -> np.ndarray:
    """Positions on the tape of one kind of operation, by start."""
    chosen = np.flatnonzero(found.program.columns.kind == kind)
    return chosen[np.argsort(found.timeline.start[chosen], kind="stable")]


def overlapped(**changes: object) -> Scenario:
    return jobs.scenario(software=jobs.stack("megatron-core", bucket_size=None), training=OVERLAP, **changes)  # type: ignore[arg-type]


def test_the_first_layer_waits_for_the_embedding_too() -> None:
    """Parameters arrive in forward order; the piece with the embedding is the largest and the first."""
    scenario = overlapped(batch=16, zero=1)
    scenario = scenario.model_copy(update={"training": scenario.training.model_copy(update={"bucket_size": 1.0})})
    found = run(scenario)
    gathers = operations(found, d.GATHER)
    lasted = (found.timeline.end - found.timeline.start)[gathers]
    assert found.program.columns.piece[gathers].tolist() == list(range(8))
    assert lasted[0] > 2 * lasted[1]
    first_forward = operations(found, d.FORWARD)[0]
    assert found.timeline.start[first_forward] >= found.timeline.end[gathers[0]]


def test_zero_2_reduces_the_gradients_of_every_microbatch() -> None:
    once, each = (run(overlapped(batch=32, zero=zero)) for zero in (1, 2))
    assert len(operations(once, d.REDUCE)) == 1
    assert len(operations(each, d.REDUCE)) == each.job.microbatches == 4


def test_zero_2_without_overlap_reduces_after_each_pass() -> None:
    found = run(jobs.scenario(batch=32, zero=2))
    reductions = operations(found, d.REDUCE)
    assert len(reductions) == found.job.microbatches
    assert (np.diff(found.timeline.start[reductions]) > 0).all()


@pytest.mark.parametrize("pp", [1, 2])
def test_earlier_reductions_of_zero_2_slow_the_passes_beside_them(pp: int) -> None:
    """Every reduction takes its share of the multiprocessors while it runs, whichever microbatch it belongs to."""
    once, each = (run(overlapped(batch=128, pp=pp, zero=zero)) for zero in (1, 2))
    lane = each.program.columns.lane[operations(each, d.REDUCE)]
    reductions = operations(each, d.REDUCE)[lane == lane.max()]
    earlier = reductions[:-1]
    busy = int((each.timeline.end - each.timeline.start)[earlier].sum())
    (call,) = each.program.contents[int(each.program.columns.content[earlier[0]])].whole.calls
    taken = each.classes.costs[0].takes(call.comm).multiprocessors * busy
    assert len(earlier) >= 7
    assert each.timeline.makespan - once.timeline.makespan >= 0.8 * taken


@pytest.mark.parametrize("zero", [0, 1, 2])
def test_a_tied_embedding_is_summed_after_the_reductions(zero: int) -> None:
    found = run(overlapped(batch=16, pp=2, zero=zero))
    reductions = operations(found, d.REDUCE)
    sums = operations(found, d.EMBEDDING)
    assert len(sums) == 2
    assert found.timeline.start[sums].min() >= found.timeline.end[reductions].max()
    assert found.timeline.start[operations(found, d.OPTIMIZER)].min() >= found.timeline.end[sums].min()


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_a_chunk_without_layers(zero: int) -> None:
    stages = {"stages": (4, 0, 0, 4), "schedule": "interleaved-1f1b"} | OVERLAP
    found = run(jobs.scenario(batch=16, pp=2, vpp=2, zero=zero, training=stages))
    assert found.timeline.makespan > 0


def test_weight_gradients_in_passes_of_their_own_are_reduced_after_the_last(tmp_path: object) -> None:
    from pathlib import Path

    file = Path(str(tmp_path)) / "split.csv"
    file.write_text("0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1W0,1F1,1I1,1W1\n")
    found = run(jobs.scenario(batch=8, pp=2, training={"schedule": str(file)} | OVERLAP, zero=1))
    weights, reductions = operations(found, d.WEIGHT), operations(found, d.REDUCE)
    columns = found.program.columns
    assert len(set(zip(columns.stage[weights], columns.microbatch[weights], strict=True))) == 4
    assert len(reductions) == 2
    assert found.timeline.start[reductions].max() >= found.timeline.end[weights].max()


def test_a_scenario_may_name_the_algorithm_of_an_axis() -> None:
    def reduced(algorithm: str) -> int:
        training = {"algorithms": {"dp": algorithm}}
        found = run(jobs.scenario(nodes=4, batch=32, tp=8, training=training))
        reduction = operations(found, d.REDUCE)
        return int((found.timeline.end - found.timeline.start)[reduction[0]])

    ring, tree, chosen = reduced("ring/Simple"), reduced("binary_tree/Simple"), reduced("auto")
    assert ring != tree
    assert chosen <= min(ring, tree)


def test_an_algorithm_that_does_not_exist() -> None:
    with pytest.raises(InputError, match="rong"):
        run(jobs.scenario(batch=32, training={"algorithms": {"dp": "rong"}}))


def fsdp(zero: int, **changes: object) -> Scenario:
    return jobs.scenario(software=jobs.stack("fsdp"), batch=32, zero=zero, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("zero", "gathers", "reductions"), [(0, 0, 8), (1, 8, 8), (2, 4 * 8, 4 * 8), (3, 8 * 8, 4 * 8)]
)
def test_fsdp_communicates_a_wrapped_unit_at_a_time(zero: int, gathers: int, reductions: int) -> None:
    """Eight layers and four microbatches: a unit each, and from ZeRO-2 on around every pass."""
    found = run(fsdp(zero))
    assert len(operations(found, d.GATHER)) == gathers
    assert len(operations(found, d.REDUCE)) == reductions


def test_a_call_for_every_tensor_and_a_copy_for_every_rank() -> None:
    """Latency is paid a call, and lists are filled rank by rank while the device waits."""

    def lasted(nodes: int, **changes: object) -> tuple[int, int]:
        software = jobs.stack("deepspeed", **changes)
        found = run(jobs.scenario(nodes=nodes, batch=8 * nodes, software=software, training={"recompute": "none"}))
        gathers = operations(found, d.GATHER)
        host = sum(piece.content.host for piece in found.classes.costs[0].passes[0][0].forward)
        return int((found.timeline.end - found.timeline.start)[gathers].sum()), host

    flat = {"list_overhead": None}
    whole, tensors = lasted(2, unit="layer", **flat), lasted(2, **flat)
    assert tensors[0] > 1.5 * whole[0]
    listed, twice = lasted(2), lasted(4)
    assert listed[0] > tensors[0]
    assert twice[1] - listed[1] == pytest.approx(8 * 4 * 8e-6 * 16 * 1e12, rel=1e-6)


def test_a_synchronous_stack_runs_nothing_beside_its_collectives_and_gathers_again_to_recompute() -> None:
    """Three gathers of a layer and one reduction, each alone on the device, as DeepSpeed 0.3.x synchronised it."""

    def lasted(synchronous: bool, recompute: str) -> tuple[float, float]:
        software = jobs.stack("deepspeed", synchronous=synchronous, list_overhead=None)
        found = run(jobs.scenario(nodes=4, batch=32, software=software, training={"recompute": recompute}))
        time = found.timeline.end - found.timeline.start
        ends = [found.timeline.end[operations(found, kind)] for kind in (d.FORWARD, d.BACKWARD)]
        starts = [found.timeline.start[operations(found, kind)] for kind in (d.FORWARD, d.BACKWARD)]
        beside = 0
        for i in np.concatenate([operations(found, d.GATHER), operations(found, d.REDUCE)]):
            for start, end in zip(starts, ends, strict=True):
                shared = np.minimum(end, found.timeline.end[i]) - np.maximum(start, found.timeline.start[i])
                beside += int(np.maximum(shared, 0).sum())
        return float(time[operations(found, d.GATHER)].sum()), float(beside)

    _, hidden = lasted(False, "full")
    twice, apart = lasted(True, "none")
    thrice, alone = lasted(True, "full")
    assert hidden > 0
    assert apart == alone == 0
    assert 1.4 < thrice / twice < 1.5  # embedding and head are not recomputed


def test_owners_broadcast_what_they_updated_one_after_the_other() -> None:
    def gathered(**changes: object) -> int:
        found = run(jobs.scenario(nodes=4, batch=32, zero=1, software=jobs.stack("pytorch-ddp", **changes)))
        gathers = operations(found, d.GATHER)
        return int((found.timeline.end - found.timeline.start)[gathers].sum())

    small = jobs.stack("internevo")
    assert small.owners
    assert gathered(owners=True) > 1.2 * gathered()


def test_layers_of_one_kind_that_compute_again_are_one_piece() -> None:
    """Pieces of thousands of turns are compared by identity, not part by part."""
    found = run(jobs.scenario(training={"recompute": "full"}))
    (costs,) = found.classes.costs
    inner = costs.passes[0][0].backward[1:-1]
    assert len(inner) > 2
    assert len({id(piece) for piece in inner}) == 1


def test_what_passes_consist_of_does_not_grow_with_chains_that_are_not_folded() -> None:
    folded, whole = (run(jobs.scenario(batch=64), fold=fold) for fold in ("exact", "none"))
    assert len(whole.classes.costs) > len(folded.classes.costs)
    assert len(whole.program.contents) == len(folded.program.contents)
