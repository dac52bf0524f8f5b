"""Sequences packed of documents: a kernel works on the squares of their lengths, however sequences are cut."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from simulator.cost import compile_device, kernel_cost
from simulator.cost.work import Attention, Document
from simulator.errors import InputError
from simulator.model.ops import AttentionCore
from simulator.run.simulate import simulate
from simulator.specs.training import Documents, Training
from simulator.training import flops, operators
from simulator.training.batches.documents import Packing, packing
from simulator.training.build import build_job
from simulator.training.context import SCHEMES, Sharing
from simulator.training.context.gather import seen
from simulator.training.job import Job
from simulator.training.step import Kernel, Step, Turn
from tests import jobs

CORE = AttentionCore(heads=16, kv_heads=4, head_dim=64)
PACKED = ("ring", "striped", "zigzag", "all-gather", "ulysses")
HALVES = (1024, 512, 512)
DEVICE = compile_device(jobs.cluster().node.accelerator)


def sharing(ranks: int, lengths: tuple[int, ...] = (), core: AttentionCore = CORE) -> Sharing:
    packed = Packing(lengths, 1.0) if lengths else None
    whole = Packing(lengths, 1.0).alike if lengths else ()

    def kernel(own: AttentionCore) -> Iterator[Step]:
        yield Kernel("attention", Attention(1, own.heads, own.kv_heads, 2048, 2048, 64, own.causal, documents=whole))

    return Sharing(core, ranks, 1, 2048, 2, packing=packed, whole=kernel)


def by_rank(kind: str, shared: Sharing) -> list[list[float]]:
    """FLOPs of attention of each different rank in each turn."""
    found = []
    for step in SCHEMES.get(kind).core(shared):
        if isinstance(step, Turn):
            found.append([sum(work.flops for work in works if isinstance(work, Attention)) for works in step.ranks])
        elif isinstance(step, Kernel):
            assert isinstance(step.work, Attention)
            found.append([step.work.flops])
    return found


def pairs(lengths: tuple[int, ...]) -> float:
    """FLOPs of causal documents."""
    return 4 * 16 * 64 * sum(length**2 / 2 for length in lengths)


def training(**changes: Any) -> Training:
    return Training(global_batch=16, sequence_length=2048, **changes)


def job(documents: Any, batch: int = 16, **changes: Any) -> Job:
    more = {"training": {"documents": Documents.model_validate(documents), "attention": "fused"}}
    return build_job(jobs.scenario(sequence=2048, batch=batch, **more, **changes))


def test_work_is_the_sum_of_the_squares_of_the_documents() -> None:
    packed = Attention(1, 16, 4, 2048, 2048, 64, True, documents=Packing(HALVES, 1.0).alike)
    assert packed.flops == pairs(HALVES)
    assert packed.documents == (Document(2, 512, 512), Document(1, 1024, 1024))
    full = Attention(1, 16, 4, 2048, 2048, 64, False, documents=packed.documents)
    assert full.flops == 2 * packed.flops
    assert packed.bytes == Attention(1, 16, 4, 2048, 2048, 64, True).bytes


@pytest.mark.parametrize("length", [16_384, 65_536])
def test_long_documents_take_their_share_of_the_time(length: int) -> None:
    """Two halves are half of the pairs; launch and memory do not shrink."""
    one = Attention(1, 16, 16, length, length, 128, True)
    halves = Attention(1, 16, 16, length, length, 128, True, documents=(Document(2, length // 2, length // 2),))
    assert kernel_cost(halves, DEVICE).seconds / kernel_cost(one, DEVICE).seconds == pytest.approx(0.5, abs=0.03)


def test_a_window_reaches_within_its_document_only() -> None:
    short = Attention(1, 1, 1, 2048, 2048, 64, True, window=512, documents=(Document(4, 512, 512),))
    assert short.flops == Attention(1, 1, 1, 2048, 2048, 64, True, documents=(Document(4, 512, 512),)).flops
    long = Attention(1, 1, 1, 2048, 2048, 64, True, window=512, documents=(Document(2, 1024, 1024),))
    assert long.flops == 4 * 64 * 2 * (1024 * 512 - 512 * 511 / 2)


@pytest.mark.parametrize("kind", PACKED)
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_one_document_is_a_sequence_as_ever(kind: str, ranks: int) -> None:
    plain, one = by_rank(kind, sharing(ranks)), by_rank(kind, sharing(ranks, (2048,)))
    assert [max(turn) for turn in one] == pytest.approx([max(turn) for turn in plain])


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_zigzag_cuts_each_document_so_that_every_rank_has_the_same_pairs(ranks: int) -> None:
    """Transformer Engine's `thd`: N turns of equal work, of which all ranks together have every pair once."""
    turns = by_rank("zigzag", sharing(ranks, HALVES))
    assert len(turns) == ranks
    assert all(len(set(turn)) == 1 for turn in turns)
    assert ranks * sum(turn[0] for turn in turns) == pytest.approx(pairs(HALVES))


def test_documents_are_filled_up_to_two_pieces_a_rank() -> None:
    assert Packing((1000, 1001), 1.0).shared(4) == {250: 1, 252: 1}


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_last_rank_of_a_plain_ring_sees_all_earlier_blocks_of_each_document(ranks: int) -> None:
    """Its own block by half, N - 1 whole ones: N - 1/2 blocks of (L / N)^2."""
    turns = by_rank("ring", sharing(ranks, HALVES))
    blocks = sum((length / ranks) ** 2 for length in HALVES)
    assert sum(turn[0] for turn in turns) == pytest.approx(4 * 16 * 64 * blocks * (ranks - 0.5))


def test_an_all_gather_leaves_documents_where_they_fall_and_waits_for_the_rank_with_most() -> None:
    """Two ranks with pieces 0, 3 and 1, 2; documents of one and of three pieces: 1/2 + 5/2 and 1/2 + 3/2 p^2."""
    uneven = (512, 1536)
    turn = by_rank("all-gather", sharing(2, uneven))[0]
    assert turn == pytest.approx([4 * 16 * 64 * 512**2 * 3, 4 * 16 * 64 * 512**2 * 2])
    assert sum(turn) == pytest.approx(pairs(uneven))
    even = by_rank("all-gather", sharing(2, (1024, 1024)))[0]
    assert even[0] == even[1]


def test_pieces_see_their_documents_from_the_start_on() -> None:
    lengths = (100, 200, 300)
    assert seen(lengths, 0, 600, True) == (Document(1, 100, 100), Document(1, 200, 200), Document(1, 300, 300))
    assert seen(lengths, 250, 450, True) == (Document(1, 50, 200), Document(1, 150, 150))
    assert seen(lengths, 250, 450, False) == (Document(1, 50, 200), Document(1, 150, 300))


@pytest.mark.parametrize("ranks", [2, 4])
def test_ulysses_has_all_documents_for_some_of_the_heads(ranks: int) -> None:
    assert by_rank("ulysses", sharing(ranks, HALVES)) == [[pairs(HALVES) / ranks]]


def test_listed_documents_are_those_of_every_sequence() -> None:
    found = packing(training(documents=Documents.model_validate([1024, 512, 512])), 4, 0)
    assert found == Packing(HALVES, 1.0)


def test_equal_documents_are_cut_where_sequences_end() -> None:
    """1,000 tokens each: 1000 1000 48 | 952 1000 96 | ...; the rank with most pairs decides."""
    found = packing(training(documents=Documents.model_validate(1000)), 16, 0)
    assert found is not None and sum(found.lengths) == 2048 and found.drawn == 16
    sequences, left = [], 0
    for _ in range(16):
        first = left or 1000
        own = [first, *[1000] * ((2048 - first) // 1000)]
        own += [2048 - sum(own)] * (sum(own) < 2048)
        sequences.append(sum(length**2 for length in own))
        left = (1000 - own[-1]) if own[-1] < 1000 and len(own) > 1 else 0
    assert sum(length**2 for length in found.lengths) == max(sequences)
    assert found.mean_share == pytest.approx(np.mean(sequences) / max(sequences))


def test_drawn_documents_are_the_same_for_a_seed_and_have_the_squares_of_their_distribution() -> None:
    """E[L^2] / E[L] of documents that are short beside their sequence: 2 m of an exponential distribution."""
    given = Training(
        global_batch=256, sequence_length=131_072, documents=Documents.model_validate({"exponential": 1000})
    )
    found = packing(given, 1, 0)
    assert found == packing(given, 1, 0) != packing(given, 1, 1)
    assert found is not None
    mean = found.mean_share * sum(length**2 for length in found.lengths)
    assert mean / 131_072 == pytest.approx(2000, rel=0.02)


def test_of_more_ranks_the_slowest_has_more_pairs() -> None:
    given = training(documents=Documents.model_validate({"lognormal": [500, 1.0]}))
    squares = [
        sum(length**2 for length in found.lengths) for ranks in (1, 4, 16) if (found := packing(given, ranks, 0))
    ]
    assert squares[0] < squares[1] < squares[2]


def test_flops_are_those_of_the_mean_sequence() -> None:
    plain, packed = job(2048), job([1024, 512, 512])
    square = 4 * 16 * 64 * 2048**2
    assert flops.attention_flops(plain, jobs.LAYER) == pytest.approx(square)
    assert flops.attention_flops(packed, jobs.LAYER) == pytest.approx(square * (1 / 4 + 2 / 16))
    drawn = job({"lognormal": [500, 1.0]}, dp=8)
    assert drawn.packing is not None
    own = sum(length**2 for length in drawn.packing.lengths)
    assert flops.attention_flops(drawn, jobs.LAYER) == pytest.approx(4 * 16 * 64 * own * drawn.packing.mean_share)
    assert any("drawn sequences" in words for words in drawn.assumptions)


def test_a_layer_runs_the_kernel_of_its_documents_forward_and_backward() -> None:
    packed = job([1024, 512, 512], devices=4, cp=4, cp_kind="all-gather")
    steps = [*operators.layer_forward(packed, jobs.LAYER), *operators.layer_backward(packed, jobs.LAYER)]
    turns = [step for step in steps if isinstance(step, Turn)]
    assert [len(turn.ranks) for turn in turns] == [4, 4]


def test_a_step_of_packed_documents_is_quicker() -> None:
    times = [
        simulate(
            jobs.scenario(
                sequence=16_384,
                devices=4,
                batch=2,
                cp=2,
                training={"attention": "fused", "documents": Documents.model_validate(lengths)},
            )
        ).metrics["step_time_s"]
        for lengths in (16_384, 4096)
    ]
    assert times[1] < 0.95 * times[0]


@pytest.mark.parametrize("kind", ["usp", "lightseq", "tokenring", "rsa"])
def test_schemes_without_kernels_for_documents_refuse_them(kind: str) -> None:
    software = {"training": {"documents": Documents.model_validate(512), "attention": "fused"}}
    if kind == "rsa":
        software["training"]["attention"] = "unfused"
    with pytest.raises(InputError, match=f"`cp_kind: {kind}` has no way to attend within packed documents"):
        build_job(jobs.scenario(sequence=2048, devices=4, cp=4, cp_kind=kind, batch=4, **software))


def test_a_document_has_a_token() -> None:
    with pytest.raises(ValueError, match="a document has a token at least"):
        Documents.model_validate(0)


def test_listed_documents_have_to_fill_the_sequence() -> None:
    with pytest.raises(InputError, match="documents of 1,536 tokens do not fill a sequence_length of 2,048"):
        job([1024, 512])


def test_documents_that_are_too_many_for_one_sequence_are_refused() -> None:
    """What is left of a sequence when no more are drawn would pass for one long document."""
    given = Training(global_batch=2, sequence_length=10_000_000, documents=Documents.model_validate(1))
    with pytest.raises(InputError, match="documents in a sequence of 10,000,000 tokens"):
        packing(given, 1, 0)
