"""Attention of documents on other ranks than their own."""

from collections import Counter

import numpy as np
import pytest

from simulator.cost.work import Document
from simulator.training.batches.served import SHARD, pairs, served


def drawn(seed: int, ranks: int) -> list[list[int]]:
    random = np.random.default_rng(seed)
    return [
        np.clip(np.rint(random.lognormal(np.log(1000), 1.2, 20)), 1, 65536).astype(int).tolist() for _ in range(ranks)
    ]


def work(documents: tuple[Document, ...]) -> float:
    return sum(map(pairs, documents))


def test_pairs_of_the_last_queries_of_a_document() -> None:
    assert pairs(Document(1, 1000, 1000)) == 1000**2 / 2
    assert pairs(Document(3, 200, 1000)) == 3 * (1000**2 / 2 - 800**2 / 2)


def test_equal_ranks_keep_their_own() -> None:
    found, moved = served([[1000, 500], [1000, 500]], 0.1)
    assert found == [(Document(1, 500, 500), Document(1, 1000, 1000))] * 2 and moved == (0, 0)


def test_whole_documents_go_where_they_fit() -> None:
    """Two of 1,000 on one rank, none on the other."""
    found, moved = served([[1000, 1000], []], 0.1)
    assert found == [(Document(1, 1000, 1000),)] * 2
    assert moved == (1000, 1000)


def test_of_one_long_document_the_last_queries_go() -> None:
    """Half of the pairs of 10,000 tokens: the last 10,000 (1 - 1 / sqrt 2) queries, over all keys."""
    found, moved = served([[10_000], []], 0.01)
    query = 10_000 - 10_000 / np.sqrt(2)
    assert moved == (pytest.approx(query, abs=1), 10_000)
    assert found[0] == (Document(1, 10_000 - moved[0], 10_000 - moved[0]),)
    assert found[1] == (Document(1, moved[0], 10_000),)
    assert work(found[0]) == pytest.approx(work(found[1]), rel=1e-3)


@pytest.mark.parametrize("ranks", [2, 8, 32])
@pytest.mark.parametrize("seed", range(3))
def test_ranks_end_within_the_tolerance_and_no_pair_is_lost(seed: int, ranks: int) -> None:
    packs = drawn(seed, ranks)
    found, _ = served(packs, 0.1)
    before = [sum(length**2 / 2 for length in own) for own in packs]
    after = [work(documents) for documents in found]
    assert sum(after) == pytest.approx(sum(before), rel=1e-12)
    assert max(after) <= 1.1 * np.mean(before) + 1e-6 < max(before)


@pytest.mark.parametrize("seed", range(3))
def test_every_query_is_worked_on_once(seed: int) -> None:
    packs = drawn(seed, 8)
    found, _ = served(packs, 0.1)
    queries = Counter({True: sum(one.number * one.query for own in found for one in own)})
    assert queries[True] == sum(map(sum, packs))


def test_less_than_a_shard_stays() -> None:
    assert served([[SHARD + 20, SHARD], [SHARD + 10, SHARD]], 0.01)[1] == (0, 0)


def test_a_tighter_tolerance_moves_more() -> None:
    packs = drawn(0, 8)
    assert served(packs, 0.05)[1] >= served(packs, 0.5)[1]
