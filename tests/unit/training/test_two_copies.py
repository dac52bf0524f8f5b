"""Two copies of the model on one pipeline: what a step does beyond its schedule, by hand and against plain 1F1B."""

from pathlib import Path

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.program import codes as d
from simulator.program.csv_form import write_csv
from simulator.program.maxplus import sweep
from simulator.program.timing import Costs, time_schedule
from simulator.run.simulate import Run, run, simulate
from simulator.specs.scenario import Scenario
from simulator.training import flops
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.memory import (
    all_chunks,
    chunk_activations,
    copied_a_step,
    parameters,
    peak_activations,
    static_memory,
)
from simulator.training.passes.program import build_program
from simulator.training.schedules import Pipeline, dualpipe
from tests import jobs

NAMES = ["dualpipe", "chimera"]
OVERLAP = {"overlap_gradients": True, "overlap_parameters": True}


def scenario(name: str = "dualpipe", pp: int = 4, more: dict[str, object] | None = None, **sizes: object) -> Scenario:
    """8 layers, 16 microbatches where there are 8 devices."""
    training = {"schedule": name, "recompute": "none"} | (more or {})
    return jobs.scenario(batch=16 * 8 // pp, pp=pp, training=training, **sizes)  # type: ignore[arg-type]


def job(name: str = "dualpipe", **changes: object) -> Job:
    return build_job(scenario(name, **changes))  # type: ignore[arg-type]


def passes_of(found: Run) -> Costs:
    """Ticks of the passes of each chunk, and of a send, which all last equally long within a node."""
    costs = found.classes.costs[0]
    passes = [[sum(p.ticks for p in kind) for kind in chunk[:4]] for chunk in costs.passes[0]]
    forward, back, inputs, weights = np.array(passes).T
    assert back == pytest.approx(inputs + weights, rel=1e-9)
    sends = {piece.ticks for piece in (*costs.send_forward[0], *costs.send_backward[0])} - {0}
    assert len(sends) == 1
    nothing = np.zeros(len(forward))
    return Costs(forward, inputs, weights, nothing, nothing, send=sends.pop())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("pp", [2, 4])
def test_passes_run_as_the_schedule_alone_says(name: str, pp: int) -> None:
    """Before what is sent meets on links; that costs less than a hundredth."""
    found = run(scenario(name, pp, more={"overlap_pipeline": True}))
    alone = time_schedule(found.job.schedule, passes_of(found)).makespan
    program = build_program(found.job, found.classes.costs, found.classes.rendezvous)
    passes = np.isin(program.columns.kind, d.PASSES)
    assert sweep(program.tape).end[passes].max() == pytest.approx(alone, rel=1e-9)
    assert alone <= found.timeline.end[passes].max() < 1.01 * alone


def test_two_ranks_by_hand() -> None:
    """Two ranks never wait but for each other's first pass: both run all layers on half of the microbatches."""
    found = run(scenario(pp=2))
    costs = passes_of(found)
    both = (costs.forward + costs.input_gradient + costs.weight_gradient)[:2].sum()
    alone = time_schedule(found.job.schedule, costs)
    assert alone.work.tolist() == [8 * both] * 2
    assert alone.makespan < 1.02 * 8 * both


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("zero", [0, 1])
@pytest.mark.parametrize("overlap", [False, True])
def test_gradients_are_summed_over_both_directions(name: str, zero: int, overlap: bool) -> None:
    """Mirrored ranks reduce the same bytes together, over twice the replicas, and begin and end with each other."""
    found = run(scenario(name, zero=zero, more=OVERLAP if overlap else {}))
    assert [one.count for one in found.job.replicas] == [2 * found.job.dp]
    groups = found.job.grid(found.job.dense)
    place = np.empty(found.job.mesh.world, np.int64)
    place[found.network.chains] = np.arange(found.job.pp)
    assert sorted(np.sort(place[groups]).tolist()) == [[0, 0, 3, 3], [1, 1, 2, 2]]
    assert sorted(groups.reshape(-1).tolist()) == list(range(8))
    columns, timeline = found.program.columns, found.timeline
    device = found.program.device(slice(None))
    for kind in (d.REDUCE, *[d.GATHER] * zero):
        when = [np.stack([timeline.start, timeline.end])[:, (columns.kind == kind) & (device == r)] for r in range(4)]
        assert when[0].shape[1] == (2 if overlap else 1)
        assert np.array_equal(when[0], when[3])
        assert np.array_equal(when[1], when[2])
        assert (when[0][1] > when[0][0]).all()
    last = [timeline.end[np.isin(columns.kind, d.PASSES) & (device == r)].max() for r in (0, 3)]
    optimizer = timeline.start[(columns.kind == d.OPTIMIZER) & (device == 0)]
    assert optimizer.min() > max(last)  # neither of them updates before the other has summed


def test_shards_lie_on_both_ranks_of_a_set() -> None:
    """Sets of two replicas and their mirrored ranks, one after the other."""
    small = job(pp=2, zero=1, shard_size=2)
    assert (small.dense.count, small.dense.shard) == (8, 4)
    assert small.grid(small.dense).tolist() == [[0, 1, 4, 5, 2, 3, 6, 7]]


@pytest.mark.parametrize("name", NAMES)
def test_memory_is_twice_the_parameters(name: str) -> None:
    """A rank holds the chunks of both directions whole, and the states of as many parameters as without copies."""
    copies, plain = (job(one, zero=1, shape=jobs.model(tied_embeddings=False)) for one in (name, "1f1b"))
    own = [parameters(plain, chunk) for chunk in all_chunks(plain)]
    for rank in range(4):
        held, states = own[rank] + own[3 - rank], static_memory(copies, rank)
        assert states["parameters"] == pytest.approx(2 * held)
        assert states["gradients"] == pytest.approx(copies.stack.gradient_bytes * held)
        assert states["optimizer"] == pytest.approx(12 * held / (2 * copies.dp))
    totals = [sum(static_memory(one, rank)["optimizer"] for rank in range(4)) for one in (copies, plain)]
    assert totals[0] == pytest.approx(totals[1])


def test_dualpipe_keeps_one_microbatch_more_than_ranks() -> None:
    both = job()
    kept = [chunk_activations(both, chunk) for chunk in all_chunks(both)[: len(both.chunks)]]
    assert peak_activations(both, 1) == pytest.approx(5 * kept[1])
    assert peak_activations(both, 0) == pytest.approx(4 * kept[0] + kept[3])
    found = simulate(scenario())
    assert found.memory[0].at_peak["activations"] == pytest.approx(peak_activations(both, 0))


@pytest.mark.parametrize("changes", [{"tied_embeddings": True}, {"tied_embeddings": False}])
def test_first_and_last_stage_share_a_rank(changes: dict[str, bool]) -> None:
    """A tied table is there once on the outer ranks, whose sum over both directions is that of its gradients."""
    outer = job(shape=jobs.model(**changes))
    table = 51200 * 1024
    inner = static_memory(outer, 1)["parameters"]
    more = (static_memory(outer, 0)["parameters"] - inner) / 2
    assert more == pytest.approx((1 if changes["tied_embeddings"] else 2) * table, rel=0.03)
    found = run(scenario(shape=jobs.model(**changes)))
    assert not (found.program.columns.kind == d.EMBEDDING).any()


def test_flops_and_tokens_are_those_of_one_copy() -> None:
    full = {"recompute": "full"}
    copies, plain = (job(name, more=full) for name in ("dualpipe", "1f1b"))
    assert flops.model_flops(copies) == flops.model_flops(plain)
    assert flops.hardware_flops(copies) == flops.hardware_flops(plain)
    tokens = [simulate(scenario(name)) for name in ("dualpipe", "1f1b")]
    assert len({one.metrics["tokens_per_s"] * one.metrics["step_time_s"] for one in tokens}) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("overlap", [False, True])
def test_folded_is_unfolded(name: str, overlap: bool) -> None:
    asked = scenario(name, nodes=2, tp=2, zero=1, more=OVERLAP if overlap else {})
    folded, whole = (run(asked, fold=fold) for fold in ("exact", "none"))
    assert len(folded.classes.costs) < len(whole.classes.costs)
    assert folded.timeline.makespan == pytest.approx(whole.timeline.makespan, abs=2)  # rounding where links are shared


def test_experts_are_summed_over_their_own_replicas() -> None:
    shape = jobs.model(experts=8, top_k=2, expert_hidden=512)
    found = run(scenario(shape=shape, nodes=2, ep=2, zero=1))
    assert [one.count for one in found.job.replicas] == [8, 4]
    pairs = np.sort(found.job.grid(found.job.replicas[1]) // 4, axis=1)
    assert sorted(pairs.tolist()) == [[0, 0, 3, 3]] * 2 + [[1, 1, 2, 2]] * 2


def test_offloaded_bytes_are_those_of_half_of_the_microbatches() -> None:
    more: dict[str, object] = {"offload_layers": 1}
    copies, plain = (job(name, more=more) for name in ("dualpipe", "1f1b"))
    assert copied_a_step(copies) == pytest.approx(copied_a_step(plain))


def test_a_file_with_two_copies(tmp_path: Path) -> None:
    write_csv(dualpipe(Pipeline(4, 1, 16)).actions(), tmp_path / "two.csv")
    by_name, read = (run(scenario(name)).timeline.makespan for name in ("dualpipe", str(tmp_path / "two.csv")))
    assert by_name == read


def test_copies_that_do_not_mirror_each_other_are_refused(tmp_path: Path) -> None:
    """Rank 1 finishes its layers in another order than rank 0, so that they could wait for each other."""
    rows = "0F0,1F1,1B1,0B0\n1F0,1B0,0F1,0B1\n"
    (tmp_path / "odd.csv").write_text(rows)
    with pytest.raises(InputError, match="2 copies of the model, not simulated in training unless two mirror each"):
        build_job(jobs.scenario(batch=8, pp=2, training={"schedule": str(tmp_path / "odd.csv")}))


@pytest.mark.parametrize("zero", [2, 3])
def test_sharded_gradients_are_refused(zero: int) -> None:
    with pytest.raises(InputError, match=rf"ZeRO-{zero} with 2 copies of the model .* write `zero: 1`, or `dualpipev`"):
        job("chimera", zero=zero)


def test_what_is_summed_costs_what_a_network_makes_of_it() -> None:
    """Between nodes the sum of mirrored ranks takes longer than within one."""
    lasted = []
    for nodes in (1, 2):
        found = run(scenario(nodes=nodes, devices=2 // nodes, pp=2))
        reduced = found.program.columns.kind == d.REDUCE
        lasted.append((found.timeline.end - found.timeline.start)[reduced].max())
    assert lasted[1] > 1.1 * lasted[0]
