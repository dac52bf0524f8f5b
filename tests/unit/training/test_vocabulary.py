"""The vocabulary over all pipeline ranks in a training step: what ranks hold, run, send each other and keep."""

import numpy as np
import pytest

from simulator.cost.work import Stream
from simulator.errors import InputError
from simulator.model.ops import Loss
from simulator.program import codes as d
from simulator.program.lump import lump
from simulator.program.maxplus import sweep
from simulator.program.timing import Costs, time_schedule
from simulator.run.simulate import Run, run, simulate
from simulator.specs.scenario import Scenario
from simulator.training.arranged import arranged_job, priced
from simulator.training.job import Job
from simulator.training.memory import (
    all_chunks,
    chunk_activations,
    parameters,
    peak_activations,
    static_memory,
)
from simulator.training.passes.program import build_program
from simulator.training.vocabulary import cross_entropy, together
from tests import jobs

NAMES = ["vocab-1", "vocab-2", "interlaced"]
LARGE = 8 * 32_000


def scenario(name: str, pp: int = 4, shape: dict[str, object] | None = None, **more: object) -> Scenario:
    """8 layers of width 1,024, 16 microbatches of 1,024 tokens."""
    model = jobs.model(**({"vocabulary": LARGE, "tied_embeddings": False} | (shape or {})))
    sizes = {"batch": 16 * 8 // pp, "training": {"schedule": name, "recompute": "none"}} | more
    return jobs.scenario(pp=pp, shape=model, **sizes)  # type: ignore[arg-type]


def job(name: str, **more: object) -> Job:
    return arranged_job(scenario(name, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", NAMES)
def test_every_rank_holds_its_part(name: str) -> None:
    """Embedding and head of 256,000 x 1,024 elements in quarters; positions stay first, the last norm last."""
    small, plain = job(name), job("1f1b")
    held = [parameters(small, chunk) for chunk in all_chunks(small)]
    layers = parameters(plain, all_chunks(plain)[1])
    whole = sum(parameters(plain, chunk) for chunk in all_chunks(plain))
    part = 2 * 64_000 * 1024
    assert held == [layers + part + 1024 * 1024, layers + part, layers + part, layers + part + 2 * 1024]
    assert sum(held) == whole
    assert static_memory(small, 2)["optimizer"] == 12.0 * held[2]


def test_a_tied_table_is_held_once() -> None:
    small = job("vocab-2", shape={"tied_embeddings": True})
    assert parameters(small, all_chunks(small)[1]) == pytest.approx(
        parameters(job("vocab-2"), all_chunks(small)[1]) - 64_000 * 1024
    )
    assert not run(scenario("vocab-2", shape={"tied_embeddings": True})).classes.costs[0].embedding


def test_a_vocabulary_that_ranks_do_not_divide_is_padded() -> None:
    small = job("vocab-2", shape={"vocabulary": 50_257})
    held = parameters(small, all_chunks(small)[1]) - parameters(job("1f1b"), all_chunks(job("1f1b"))[1])
    assert held == 2 * 12_565 * 1024


@pytest.mark.parametrize(("name", "early"), [("vocab-1", 1), ("vocab-2", 2), ("interlaced", 1)])
def test_what_makers_see(name: str, early: int) -> None:
    """Of three products with 64,000 x 1,024 elements S makes one or two, beside them passes over the logits; what all
    ranks do together is priced too. Sends block the ranks before the last one."""
    asked = scenario(name)
    costs, once = priced(asked, job(name)), run(asked).classes.costs[0]
    assert costs.forward[1] == costs.forward[2] > costs.forward[3]
    assert costs.scores is not None
    assert costs.scores_gradient is not None
    assert len(set(costs.scores)) == len(set(costs.scores_gradient)) == 1
    assert (costs.scores[0] > costs.scores_gradient[0]) == (early == 2)
    assert [costs.scores[0], costs.scores_gradient[0]] == [lump(way).ticks for way in once.alone[0][1][4:]]
    assert costs.barrier == max(piece.ticks for way in once.together for piece in way) > 0


@pytest.mark.parametrize(
    ("name", "fused", "more"),
    [("vocab-1", True, 1), ("vocab-2", True, 1), ("interlaced", True, 1), ("1f1b", True, 0), ("vocab-2", False, 0)],
)
def test_no_kernel_fuses_a_loss_whose_rows_lie_on_several_ranks(name: str, fused: bool, more: int) -> None:
    """Exponentials are scaled by the sums of the rank's part and, when those of all are known, once more."""
    asked = scenario(name, software=jobs.stack(fused_loss=fused))
    asked_job, factor = arranged_job(asked), 1 if fused else 2
    size = 4.0 * 1024 * 64_000
    for loss, read, written in ((Loss(64_000), 2.5, 1.5), (Loss(64_000, backward=True), 1.0, 1.0)):
        work = cross_entropy(asked_job, loss).work
        assert isinstance(work, Stream)
        assert work.read_bytes == (factor * read + more) * size
        assert work.write_bytes == (factor * written + more) * size


def test_collectives_by_hand() -> None:
    """Rows of 1,024 x 1,024 x 2 bytes: the last output and the first gradient go to all; looked up rows and, where they
    come with the scores, gradients are summed beside 8 bytes a token."""
    rows, statistics = 1024 * 1024 * 2.0, 8.0 * 1024
    sizes = {
        name: [[(c.operation, c.size) for c in one] for one in together(job(name))] for name in ("vocab-1", "vocab-2")
    }
    to_all, summed = [("broadcast", rows)] * 2, ("all_reduce", rows)
    assert sizes["vocab-1"] == [to_all, [("all_reduce", statistics), summed], [summed]]
    assert sizes["vocab-2"] == [to_all, [("all_reduce", statistics), summed, summed]]


@pytest.mark.parametrize("name", NAMES)
def test_passes_run_as_the_schedule_alone_says(name: str) -> None:
    """Every microbatch meets for each barrier on lanes of their own; a step lasts as the schedule says where barriers
    last no time, where all last as long as the longest, or between."""
    found = run(scenario(name, training={"schedule": name, "recompute": "none", "overlap_pipeline": True}))
    program, prices = build_program(found.job, found.classes.costs, found.classes.rendezvous), found.classes.costs[0]
    end = sweep(program.tape).end[np.isin(program.columns.kind, d.PASSES)].max()
    longest = max(piece.ticks for one in prices.together for piece in one)
    least, most = (time_schedule(found.job.schedule, _passes(found, ticks)).makespan for ticks in (0, longest))
    assert least <= end <= most
    assert most - least < (17 * 3 * longest if name == "interlaced" else 8 * longest)
    barriers = np.isin(program.columns.kind, (d.BROADCAST, d.SUMS, d.SUMMED_GRADIENT))
    assert barriers.sum() == (2 if name == "vocab-2" else 3) * 4 * 16
    assert len(np.unique(program.tape.rendezvous[barriers])) == barriers.sum() // 4


def _passes(found: Run, barrier: int) -> Costs:
    """Ticks of the passes of each chunk, and of a send, which all last equally long within a node."""
    prices = found.classes.costs[0]
    ticks = np.array([[sum(piece.ticks for piece in kind) for kind in chunk] for chunk in prices.passes[0]]).T
    forward, back, _, _, scores, gradients = ticks
    sends = {piece.ticks for piece in (*prices.send_forward[0], *prices.send_backward[0])} - {0}
    nothing = np.zeros(len(forward))
    return Costs(forward, back, 0 * forward, nothing, nothing, sends.pop(), None, scores, gradients, barrier)


def test_a_large_vocabulary_no_longer_holds_the_others_up() -> None:
    """Work of the logits in quarters on all ranks: nearly as fast as if it were even, memory of the last stage less."""
    plain, cut = (simulate(scenario(name)).metrics for name in ("1f1b", "vocab-2"))
    assert cut["step_time_s"] < 0.5 * plain["step_time_s"]
    assert cut["bubble_fraction"] < 0.3 < plain["bubble_fraction"]
    assert cut["peak_memory_bytes"] < plain["peak_memory_bytes"]
    assert cut["model_flops_per_device"] * cut["step_time_s"] == pytest.approx(
        plain["model_flops_per_device"] * plain["step_time_s"]
    )


@pytest.mark.parametrize(("name", "kept"), [("vocab-1", 6), ("vocab-2", 5), ("interlaced", 6)])
def test_activations(name: str, kept: int) -> None:
    """Of rank 0 so many microbatches, and logits of one between S and T: 1,024 tokens x 64,000 x (2 + 4) bytes and the
    1,024 x 2 bytes of a row that the product keeps."""
    small = job(name)
    logits = 1024 * (64_000 * (2 + 4 * small.stack.fp32_logits) + 1024 * 2)
    chunk = chunk_activations(small, all_chunks(small)[0])
    assert kept * chunk <= peak_activations(small, 0) <= kept * chunk + logits
    found = simulate(scenario(name))
    assert found.memory[0].at_peak["activations"] == peak_activations(small, 0)


@pytest.mark.parametrize("name", ["vocab-1", "vocab-2"])
@pytest.mark.parametrize("zero", [0, 1, 2])
def test_beside_data_parallelism(name: str, zero: int) -> None:
    """Folded replicas pay what each pays apart, gradients of the parts are summed over them."""
    training = {"schedule": name, "recompute": "none", "overlap_gradients": True}
    sizes = {"zero": zero, "training": training, "dp": 2}
    folded = simulate(scenario(name, **sizes))
    apart = simulate(scenario(name, **sizes), fold="none")
    assert folded.metrics["step_time_s"] == pytest.approx(apart.metrics["step_time_s"], rel=1e-6)


def test_passes_that_are_cut_keep_logits_once() -> None:
    """With tensor parallelism S and T have several operations; those of one microbatch count from the first on."""
    training = {"schedule": "interlaced", "recompute": "none", "overlap_gradients": True}
    asked = scenario(
        "interlaced", pp=2, tp=2, zero=2, training=training, batch=16, software=jobs.stack("megatron-core")
    )
    found = simulate(asked)
    assert found.memory[0].at_peak["activations"] == peak_activations(arranged_job(asked), 0)


def test_from_a_file(tmp_path: object) -> None:
    """The order written out and read back runs as the one by name."""
    from pathlib import Path

    from simulator.program.csv_form import write_csv

    path = Path(str(tmp_path)) / "order.csv"
    write_csv(job("vocab-2").schedule.actions(), path)
    again = simulate(scenario(str(path)))
    assert again.metrics["step_time_s"] == simulate(scenario("vocab-2")).metrics["step_time_s"]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"zero": 3, "dp": 2}, "gathered around passes"),
        ({"shape": {"mtp_layers": 1}}, "predict further tokens"),
        ({"training": {"schedule": "vocab-1", "lora": {"rank": 8}}}, "adapters"),
    ],
)
def test_what_is_not_simulated_is_refused(more: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        job("vocab-1", **more)
