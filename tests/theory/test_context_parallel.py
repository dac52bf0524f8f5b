"""Context parallelism against the papers that proposed it: what is hidden, what each rank works, what is sent."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator import units
from simulator.cost import Device, compile_device, kernel_cost
from simulator.cost.work import Attention, Stream
from simulator.errors import InputError
from simulator.model.ops import AttentionCore
from simulator.run.dispatch import simulate
from simulator.training import flops, memory, operators
from simulator.training.build import build_job
from simulator.training.context import SCHEMES, Sharing
from simulator.training.context.ring import contiguous, striped, zigzag
from simulator.training.job import Job
from simulator.training.pass_costs import PassCosts
from simulator.training.step import Collective, Kernel, Step, Turn
from tests import jobs

RANKS = (2, 4, 5, 8)
RINGS = ("ring", "striped", "zigzag")
GROUPED = AttentionCore(heads=16, kv_heads=4, head_dim=64)
ELEMENT = 2


def sharing(ranks: int, sequence: int = 4096, core: AttentionCore = GROUPED, backward: bool = False) -> Sharing:
    core = replace(core, backward=backward)
    return Sharing(
        core, ranks, 1, sequence, ELEMENT, whole=lambda own: iter([Kernel("attention", whole(own, sequence))])
    )


def whole(core: AttentionCore, sequence: int) -> Attention:
    return Attention(1, core.heads, core.kv_heads, sequence, sequence, core.head_dim, core.causal)


def steps(kind: str, shared: Sharing) -> list[Step]:
    return list(SCHEMES.get(kind).core(shared))


def sent(taken: Sequence[Step]) -> list[Collective]:
    return list(operators.collectives(taken))


def bytes_sent(taken: Sequence[Step], ranks: int) -> float:
    """What one rank sends, by what its library counts as the size of each collective."""
    share = {"shift": 1.0, "all_to_all": (ranks - 1) / ranks, "all_gather": (ranks - 1) / ranks}
    share["reduce_scatter"] = share["all_gather"]
    return sum(one.size * share[one.operation] for one in sent(taken))


# ---- what is sent ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("kind", RINGS)
def test_a_ring_sends_its_keys_and_values_once_and_backward_their_gradients_too(kind: str, ranks: int) -> None:
    """(N - 1) s B forward and twice that backward, B = 2 G d b (Transformer Engine's p2p)."""
    s, per_token = 40, 2 * 4 * 64 * ELEMENT
    forward, backward = (steps(kind, sharing(ranks, s * ranks, backward=back)) for back in (False, True))
    assert bytes_sent(forward, ranks) == (ranks - 1) * s * per_token
    assert bytes_sent(backward, ranks) == 2 * (ranks - 1) * s * per_token
    assert [one.size for one in sent(forward)] == [s * per_token] * (ranks - 1)
    ends = [s * per_token] if ranks > 1 else []
    assert [one.size for one in sent(backward)] == [*ends, *[2 * s * per_token] * (ranks - 2), *ends]


@pytest.mark.parametrize("ranks", RANKS)
def test_an_all_gather_sends_as_much_as_a_ring_and_backward_the_sums_besides(ranks: int) -> None:
    s, per_token = 40, 2 * 4 * 64 * ELEMENT
    forward, backward = (steps("all-gather", sharing(ranks, s * ranks, backward=back)) for back in (False, True))
    assert bytes_sent(forward, ranks) == pytest.approx((ranks - 1) * s * per_token)
    assert bytes_sent(backward, ranks) == pytest.approx(2 * (ranks - 1) * s * per_token)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("backward", [False, True])
def test_ulysses_sends_queries_keys_values_and_results_once_each_way(ranks: int, backward: bool) -> None:
    """(N - 1) / N s d b (2 H + 2 G) with key heads repeated to N where there are fewer (arXiv:2309.14509)."""
    s = 64
    taken = steps("ulysses", sharing(ranks, s * ranks, backward=backward))
    heads = 2 * 16 + 2 * max(4, ranks)
    assert bytes_sent(taken, ranks) == pytest.approx((ranks - 1) / ranks * s * 64 * ELEMENT * heads)
    assert len(sent(taken)) == 4


def test_what_ulysses_sends_stays_constant_when_sequence_and_devices_grow_together() -> None:
    """4 N h / P elements a link for multi-head attention (DeepSpeed's blog); Megatron's 4 N h grow with N."""
    heads = AttentionCore(heads=64, kv_heads=64, head_dim=64)
    buffers = {
        sum(one.size for one in sent(steps("ulysses", sharing(ranks, 1024 * ranks, heads)))) for ranks in (2, 8, 32, 64)
    }
    assert buffers == {4 * 1024 * 64 * 64 * ELEMENT}


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("heads", "rings"), [(2, 2), (4, 2), (2, 4)])
def test_usp_sends_as_ulysses_inside_and_as_a_ring_outside(heads: int, rings: int, backward: bool) -> None:
    """All-to-alls over U ranks, and (R - 1) s B around, twice that backward: arXiv:2405.07719."""
    ranks, s = heads * rings, 64
    shared = replace(sharing(ranks, s * ranks, backward=backward), by_heads=heads)
    around = [one for one in sent(steps("usp", shared)) if one.operation == "shift"]
    across = [one for one in sent(steps("usp", shared)) if one.operation == "all_to_all"]
    assert {one.part for one in around} == {(rings, heads)}
    assert {one.part for one in across} == {(heads, 1)}
    assert sum(one.size for one in around) == (1 + backward) * (rings - 1) * s * 2 * 4 * 64 * ELEMENT
    moved = sum(one.size for one in across) * (heads - 1) / heads
    assert moved == pytest.approx((heads - 1) / heads * s * 64 * ELEMENT * (2 * 16 + 2 * 4))


@pytest.mark.parametrize("ranks", RANKS)
def test_ring_self_attention_sends_two_rings_and_backward_two_all_reduces_more(ranks: int) -> None:
    """2 (N - 1) s h b forward, 6 (N - 1) s h b backward: arXiv:2105.13120, section 3."""
    s, h = 64, 16 * 64
    many = AttentionCore(heads=16, kv_heads=16, head_dim=64, causal=False)
    forward, backward = (sent(steps("rsa", sharing(ranks, s * ranks, many, back))) for back in (False, True))
    assert sum(one.size for one in forward) == 2 * (ranks - 1) * s * h * ELEMENT
    share = {"shift": 1.0, "all_reduce": 2 * (ranks - 1) / ranks}
    assert sum(one.size * share[one.operation] for one in backward) == pytest.approx(6 * (ranks - 1) * s * h * ELEMENT)


@pytest.mark.parametrize("ranks", RANKS)
def test_token_ring_sends_queries_one_way_and_results_the_other(ranks: int) -> None:
    """(N - 1) s (2 H d b + 4 H) over both directions: arXiv:2412.20501."""
    s = 64
    taken = sent(steps("tokenring", sharing(ranks, s * ranks)))
    assert sum(one.size for one in taken) == (ranks - 1) * s * (2 * 16 * 64 * ELEMENT + 4 * 16)
    both = [one for one in taken if one.operation == "shift:1:-1"]
    assert len(both) == max(ranks - 3, 0)


# ---- what each rank works ----------------------------------------------------------------------------------------


def places(kind: str, ranks: int, part: int) -> list[NDArray[np.int64]]:
    """The tokens of each rank."""
    tokens = np.arange(ranks * part)
    if kind == "striped":
        return [tokens[rank::ranks] for rank in range(ranks)]
    if kind == "ring":
        return list(tokens.reshape(ranks, part))
    halves = tokens.reshape(2 * ranks, part // 2)
    return [np.concatenate([halves[rank], halves[2 * ranks - 1 - rank]]) for rank in range(ranks)]


def seen(kind: str, ranks: int, part: int) -> NDArray[np.int64]:
    """Pairs of a query and a key before it (or its own) by rank and turn, counted one by one; (ranks, turns)."""
    held = places(kind, ranks, part)
    pairs = [
        [int((held[rank][:, None] >= held[(rank - turn) % ranks][None, :]).sum()) for turn in range(ranks)]
        for rank in range(ranks)
    ]
    return np.array(pairs)


@pytest.mark.parametrize("ranks", RANKS)
def test_zigzag_gives_every_rank_equal_causal_work_in_every_turn(ranks: int) -> None:
    part = 12
    pairs = seen("zigzag", ranks, part)
    assert (pairs == pairs[0]).all()
    assert pairs[0].tolist() == [part * (part + 1) // 2] + [part * part // 2] * (ranks - 1)
    shares = [zigzag(sharing(ranks, part * ranks), turn) for turn in range(1, ranks)]
    assert {q * k for turn in shares for q, k, causal in turn if not causal} <= {part * part // 2}


@pytest.mark.parametrize("ranks", RANKS)
def test_stripes_differ_by_the_diagonal_and_consecutive_tokens_by_everything(ranks: int) -> None:
    part = 12
    stripes = seen("striped", ranks, part)
    assert set(stripes.ravel().tolist()) <= {part * (part - 1) // 2, part * (part + 1) // 2}
    assert {striped(sharing(ranks, part * ranks), turn) for turn in range(ranks)} == {((part, part, True),)}
    blocks = seen("ring", ranks, part)
    assert blocks[0].tolist() == [part * (part + 1) // 2] + [0] * (ranks - 1)
    assert blocks[-1].tolist() == [part * (part + 1) // 2] + [part * part] * (ranks - 1)
    last = [contiguous(sharing(ranks, part * ranks), turn)[0] for turn in range(ranks)]
    assert last == [(part, part, True)] + [(part, part, False)] * (ranks - 1)
    # (N^2 - N) / 2 of the N^2 slots idle: arXiv:2310.03294, section 3.2.
    assert np.count_nonzero(blocks == 0) == (ranks**2 - ranks) // 2


@pytest.mark.parametrize("ranks", RANKS)
def test_of_an_all_gather_every_rank_sees_as_many_pairs_as_the_first(ranks: int) -> None:
    part = 12
    total = {int((held[:, None] >= np.arange(ranks * part)).sum()) for held in places("zigzag", ranks, part)}
    (turn,) = [step for step in steps("all-gather", sharing(ranks, part * ranks)) if isinstance(step, Turn)]
    (works,) = turn.ranks
    assert all(isinstance(work, Attention) for work in works)
    pairs = sum(work.query * (2 * work.context - work.query + 1) // 2 for work in works)  # type: ignore[union-attr]
    assert total == {pairs}


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8, 9])
def test_helpers_finish_all_blocks_in_half_as_many_turns(ranks: int) -> None:
    """Algorithm 2 of arXiv:2310.03294: every block that a causal mask leaves is worked exactly once."""
    done = [(rank, rank) for rank in range(ranks)]
    for turn in range(1, ranks // 2 + 1):
        for rank in range(ranks):
            if rank >= turn:
                done.append((rank, rank - turn))
            elif 2 * turn < ranks:
                done.append((rank - turn + ranks, rank))
    assert sorted(done) == [(query, key) for query in range(ranks) for key in range(query + 1)]
    taken = [step for step in steps("lightseq", sharing(ranks, 64 * ranks)) if isinstance(step, Turn)]
    assert len(taken) == ranks // 2 + 1
    fetched = [one.operation for one in sent(taken) if one.name.startswith("keys")]
    assert fetched == [f"shift:{turn}" for turn in range(1, ranks // 2 + 1)]
    returned = [one.operation for one in sent(steps("lightseq", sharing(ranks, 64 * ranks))) if one.name == "results"]
    assert returned == [f"shift:{-turn}" for turn in range(1, ranks // 2 + 1) if 2 * turn < ranks]


def test_checkpoints_behind_attention_run_and_send_nothing_of_it_twice() -> None:
    """Section 3.3 of arXiv:2310.03294."""
    software = jobs.stack("megatron-core")
    again = {}
    for kind in ("lightseq", "zigzag"):
        made = jobs.scenario(software=software, cp=8, cp_kind=kind, sequence=8192, training={"recompute": "full"})
        job = build_job(made)
        again[kind] = (list(operators.recomputed(job, jobs.LAYER)), memory.peak_activations(job, 0))
        assert flops.hardware_flops(job) > flops.model_flops(job)
    assert [one for one in sent(again["lightseq"][0]) if one.axis == "cp"] == []
    assert [one for one in sent(again["zigzag"][0]) if one.axis == "cp"] != []
    kept = 8 * 1024 * (1024 * 2 + 16 * 4)  # layers, tokens, results in 2 bytes, statistics of 16 heads
    assert again["lightseq"][1] - again["zigzag"][1] == kept


# ---- the clock, worked out a second time -------------------------------------------------------------------------


def job_of(kind: str, ranks: int) -> Job:
    software = jobs.stack("megatron-core")
    shape = jobs.model(heads=16, kv_heads=8, position="rotary", max_sequence=None)
    made = jobs.scenario(software=software, shape=shape, sequence=4096 * ranks, devices=ranks, cp=ranks, cp_kind=kind)
    return build_job(made)


@cache
def device() -> Device:
    return compile_device(jobs.cluster().node.accelerator)


def ticks_of(job: Job, query: int, context: int, causal: bool, backward: bool, heads: int = 16, kv: int = 8) -> int:
    work = Attention(1, heads, kv, query, context, 64, causal, "bf16", backward, job.stack.attention_kernel)
    return units.to_ticks(kernel_cost(work, device()).seconds / job.stack.compute_efficiency.value)


def sums(query: int, context: int, backward: bool) -> int:
    """Ticks of adding a block to running sums of four bytes; backward those of its keys and values besides."""
    rows, keys = query * 16 * 64, 2 * context * 8 * 64 * backward
    work = Stream(6.0 * rows + 4.0 * keys, 4.0 * rows + 2.0 * keys, kernels=1 + backward)
    return units.to_ticks(kernel_cost(work, device()).seconds)


MESSAGE = 2 * 4096 * 8 * 64 * 2
"""Bytes of keys and values of a rank."""


def by_hand(job: Job, kind: str, ranks: int, backward: bool) -> list[int]:
    """Ticks of each block of attention, by rank's worst."""
    s = 4096
    own = ticks_of(job, s, s, True, backward)
    if kind == "ring":
        return [own] + [ticks_of(job, s, s, False, backward) + sums(s, s, backward)] * (ranks - 1)
    if kind == "striped":
        return [own] + [own + sums(s, s, backward)] * (ranks - 1)
    early = ticks_of(job, s, s // 2, False, backward) + sums(s, s // 2, backward)
    late = ticks_of(job, s // 2, s, False, backward) + sums(s // 2, s, backward)
    return [own] + [max(early, late)] * (ranks - 1)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("ranks", [4, 5, 8])
@pytest.mark.parametrize("kind", RINGS)
def test_a_ring_hides_its_transfers_exactly_when_a_block_computes_longer(kind: str, ranks: int, backward: bool) -> None:
    """A turn lasts the longer of block and message, to the tick: arXiv:2310.01889, section 3."""
    job = job_of(kind, ranks)
    core = AttentionCore(16, 8, 64, backward=backward)
    blocks = by_hand(job, kind, ranks, backward)
    doubled = [backward and 0 < turn < ranks - 1 for turn in range(ranks)]
    for travels in (1, min(blocks) // 2 - 1, min(blocks), max(blocks), max(blocks) + 12_345, 3 * max(blocks)):
        costs = PassCosts(job, device(), lambda comm, one=travels: round(one * comm.size / MESSAGE))
        piece = costs.piece(operators.attention_core(job, core))
        messages = [travels * (1 + both) for both in doubled]
        if not backward:
            messages[-1] = 0
        expected = sum(map(max, zip(blocks, messages, strict=True)))
        assert piece.lasts(np.ones(1)).tolist() == [expected]
        exposed = sum(max(0, message - block) for block, message in zip(blocks, messages, strict=True))
        assert piece.content.exposed == exposed
        hidden = all(block >= message for block, message in zip(blocks, messages, strict=True))
        assert (exposed == 0) == hidden


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("ranks", [4, 8])
def test_ulysses_waits_for_four_all_to_alls_around_one_kernel(ranks: int, backward: bool) -> None:
    job = job_of("ulysses", ranks)
    costs = PassCosts(job, device(), lambda comm: round(comm.size))
    piece = costs.piece(operators.attention_core(job, AttentionCore(16, 8, 64, backward=backward)))
    moved = 4096 * 64 * 2 * (2 * 16 + 2 * 8)
    kernel = ticks_of(job, 4096 * ranks, 4096 * ranks, True, backward, 16 // ranks, 8 // ranks)
    assert piece.lasts(np.ones(1)).tolist() == [kernel + moved]
    assert piece.content.exposed == moved


@pytest.mark.parametrize(("kind", "speedup", "measured"), [("ring", 4.3, 4.5), ("lightseq", 7.1, 7.5)])
def test_balanced_blocks_are_worth_seven_of_eight_devices(kind: str, speedup: float, measured: float) -> None:
    """N^2 / 2 blocks take N - 1/2 turns of a ring and N / 2 + 1/2 balanced ones, where transfers hide; measured on
    eight A100: arXiv:2310.03294, section 4.5."""
    job = job_of(kind, 8)
    costs = PassCosts(job, device(), lambda comm: 1)
    core = AttentionCore(16, 8, 64)
    alone = ticks_of(job, 8 * 4096, 8 * 4096, True, False)
    found = alone / int(costs.piece(operators.attention_core(job, core)).lasts(np.ones(1))[0])
    assert found == pytest.approx(speedup, rel=0.15)
    assert found == pytest.approx(measured, rel=0.2)


# ---- whole steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*RINGS, "all-gather", "ulysses", "usp", "lightseq", "tokenring"])
def test_folded_is_unfolded(kind: str) -> None:
    found = []
    for fold in ("none", "exact"):
        made = jobs.scenario(
            nodes=2, software=jobs.stack("megatron-core"), sequence=4096, tp=2, cp=4, pp=2, batch=4, cp_kind=kind
        )
        found.append(simulate(made, fold=fold))
    assert found[0].metrics["step_time_s"] == pytest.approx(found[1].metrics["step_time_s"], rel=1e-8)
    for one, other in zip(found[0].breakdown, found[1].breakdown, strict=False):
        assert one["exposed_cp"] == pytest.approx(other["exposed_cp"], rel=1e-8)
    for one, other in zip(found[0].links, found[1].links, strict=True):
        assert one.bytes == pytest.approx(other.bytes)


@pytest.mark.parametrize("kind", [*RINGS, "all-gather", "ulysses"])
def test_longer_sequences_on_more_ranks_keep_as_much_and_only_gathers_hold_more(kind: str) -> None:
    peaks = []
    for ranks in (2, 4, 8):
        made = jobs.scenario(
            software=jobs.stack("megatron-core"), devices=ranks, sequence=2048 * ranks, cp=ranks, cp_kind=kind, batch=1
        )
        job = build_job(made)
        peaks.append((memory.peak_activations(job, 0), memory.shared_in_flight(job, jobs.LAYER)))
    assert len({kept for kept, _ in peaks}) == 1
    growth = {later / earlier for (_, earlier), (_, later) in pairwise(peaks)}
    assert growth == ({2.0} if kind == "all-gather" else {1.0})  # which holds the keys of all


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("backward", [False, True])
def test_windows_over_consecutive_tokens_take_one_window_of_a_neighbour(ranks: int, backward: bool) -> None:
    """w keys and values, whatever the sequence; pairs of s rows with w keys each; backward the gradients return."""
    window, s = 128, 512
    core = replace(GROUPED, window=window)
    taken = steps("halo", sharing(ranks, s * ranks, core, backward))
    assert [one.size for one in sent(taken)] == [window * 2 * 4 * 64 * ELEMENT] * (1 + backward)
    turn = next(step for step in taken if isinstance(step, Turn))
    work = turn.ranks[0][0]
    assert isinstance(work, Attention)
    pairs = s * window  # those of the first block count w / 2 more where a causal square is halved without its diagonal
    assert work.flops == pytest.approx(4 * 16 * 64 * pairs * (2.5 if backward else 1), rel=2e-3)


def test_a_halo_needs_windows_in_all_layers_that_are_no_longer_than_a_part() -> None:
    shape = jobs.model(window=128, windowed_layers=4)
    with pytest.raises(InputError, match="layers look back to more than its 128 tokens"):
        build_job(jobs.scenario(devices=8, cp=8, cp_kind="halo", shape=shape, training={"attention": "fused"}))
    fits = {"training": {"attention": "fused"}, "devices": 8, "cp": 8, "cp_kind": "halo"}
    assert build_job(jobs.scenario(shape=jobs.model(window=128), **fits)).cp == 8
    with pytest.raises(InputError, match="more than its 128 tokens"):
        build_job(jobs.scenario(shape=jobs.model(window=256), **fits))
