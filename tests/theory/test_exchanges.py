"""Exchanges of tokens with experts against combinatorics, random draws and the bytes that a library sends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import collectives
from simulator.collectives import Routing
from simulator.collectives.algorithms import EXCHANGES
from simulator.fabric import Fabric, build
from tests.machines import cluster, profile

LIBRARY = profile()
FLAT, FOUR = build(cluster()), build(cluster(nodes=4))
SIZE = 8e8
"""Tokens x top-k x bytes of a token."""
K = 8


def cost(
    algorithm: str,
    routing: Routing,
    ranks: object = range(32),
    fabric: Fabric = FOUR,
    operation: str = "dispatch",
) -> collectives.CollectiveCost:
    return collectives.cost_of(operation, [ranks], SIZE, fabric, LIBRARY, algorithm, routing)  # type: ignore[list-item]


def ends(found: collectives.CollectiveCost, of: str, ranks: int = 32) -> np.ndarray:  # type: ignore[type-arg]
    """Bytes that each rank sends (`src`) or receives (`dst`)."""
    return sum(np.bincount(getattr(phase, of), phase.repeat * phase.size, ranks) for phase in found.plan.phases(0))  # type: ignore[return-value]


def drawn(routing: Routing, parts: int, tokens: int = 20_000) -> float:
    """Parts that a token reaches, by drawing scores: the groups with the best experts, then the best in them."""
    random = np.random.default_rng(7)
    score = random.random((tokens, routing.experts))
    best = score.reshape(tokens, routing.groups, -1).max(axis=2)
    limit = routing.group_limit or routing.groups
    kept = best >= np.sort(best, axis=1)[:, [-limit]]
    score = np.where(np.repeat(kept, routing.experts // routing.groups, axis=1), score, -1)
    part = np.argsort(-score, axis=1)[:, : routing.top_k] * parts // routing.experts
    return float(np.mean([len(set(row)) for row in part.tolist()]))


@pytest.mark.parametrize(
    ("experts", "top_k", "parts", "published"),
    [(256, 8, 2, 1.99), (256, 8, 4, 3.61), (256, 8, 8, 5.29), (256, 8, 64, 7.68), (128, 4, 8, 3.34), (64, 6, 8, 4.54)],
)
def test_distinct_parts_by_combinatorics(experts: int, top_k: int, parts: int, published: float) -> None:
    assert Routing(experts, top_k).distinct(parts) == pytest.approx(published, abs=0.006)


@pytest.mark.parametrize("parts", [2, 4, 8, 16, 64])
@pytest.mark.parametrize("routing", [Routing(256, 8), Routing(256, 8, 8, 4), Routing(128, 6, 16, 3)])
def test_distinct_parts_by_random_draws(routing: Routing, parts: int) -> None:
    assert routing.distinct(parts) == pytest.approx(drawn(routing, parts), rel=0.01)


def test_a_hot_rank_is_reached_as_often_as_its_load_says() -> None:
    """Copies that random tokens send to a rank whose experts are three times as likely, each at most once a token."""
    random = np.random.default_rng(3)
    likely = np.where(np.arange(64) < 8, 3.0, 1.0)
    score = np.log(random.random((40_000, 64))) / likely
    chosen = np.argsort(-score, axis=1)[:, :4] // 8
    copies = np.bincount(chosen.ravel(), minlength=8)
    found = Routing(64, 4).chance(1 / 8, float(copies[0] / copies.mean()))
    assert found == pytest.approx((chosen == 0).any(axis=1).mean(), rel=0.03)


@given(st.sampled_from([2, 4, 8]), st.integers(1, 8))
def test_an_exchange_without_merging_sends_all_copies_but_the_local_share(ranks: int, top_k: int) -> None:
    """tokens x top-k x hidden x element x (ep - 1) / ep, as Megatron's all-to-all does."""
    routing = Routing(64, top_k)
    found = cost("direct", routing, range(ranks), FLAT)
    plain = collectives.cost_of("all_to_all", [range(ranks)], SIZE, FLAT, LIBRARY, "direct")
    assert ends(found, "src")[:ranks] == pytest.approx(np.full(ranks, SIZE * (ranks - 1) / ranks))
    assert found.ticks.tolist() == plain.ticks.tolist()


@pytest.mark.parametrize("ranks", [range(8), range(32)])
def test_one_copy_a_rank(ranks: range) -> None:
    """Each rank sends its tokens to D(n) ranks, less those that stay."""
    n, routing = len(ranks), Routing(256, K)
    sent = ends(cost("per_rank", routing, ranks), "src")[:n]
    assert sent == pytest.approx(np.full(n, SIZE / K * routing.distinct(n) * (n - 1) / n))


def test_one_copy_a_node_over_the_network_and_one_a_rank_inside() -> None:
    routing = Routing(256, K)
    found = cost("node_multicast", routing)
    token = SIZE / K
    (phase,) = found.plan.phases(0)
    far = phase.src // 8 != phase.dst // 8
    assert np.bincount(phase.src[far], phase.size[far]) == pytest.approx(
        np.full(32, token * routing.distinct(4) * 3 / 4)
    )
    assert (phase.src[far] % 8 == phase.dst[far] % 8).all()
    forwarded = np.bincount(phase.src[~far], phase.size[~far])
    assert forwarded == pytest.approx(np.full(32, token * routing.distinct(32) * 7 / 8))
    cards = found.load[found.plan.fabric.paths([0], [8])[0, 0]]
    assert cards == pytest.approx(token * routing.distinct(4) * 3 / 4)


def test_what_crosses_the_network_falls_from_copies_to_ranks_to_nodes_to_limited_nodes() -> None:
    nic = FOUR.paths([0], [8])[0, 0]
    free, limited = Routing(256, K), Routing(256, K, 4, 2)
    sent = [cost(name, free).load[nic] for name in ("direct", "per_rank", "node_multicast")]
    assert sent[0] > sent[1] > sent[2] > cost("node_multicast", limited).load[nic]


@pytest.mark.parametrize("algorithm", EXCHANGES.names())
@pytest.mark.parametrize("load", [(), tuple(range(1, 33))])
def test_what_is_dispatched_comes_back(algorithm: str, load: tuple[float, ...]) -> None:
    """A combine is its dispatch the other way round; all that is sent is received."""
    routing = Routing(256, K, load=load)
    there, back = (cost(algorithm, routing, operation=o) for o in ("dispatch", "combine"))
    assert ends(there, "src").sum() == pytest.approx(ends(there, "dst").sum())
    assert ends(there, "src") == pytest.approx(ends(back, "dst"))
    assert ends(there, "dst") == pytest.approx(ends(back, "src"))


@pytest.mark.parametrize("algorithm", EXCHANGES.names())
def test_equal_loads_are_no_load(algorithm: str) -> None:
    even, stated = (cost(algorithm, Routing(256, K, load=load)) for load in ((), (5.0,) * 32))
    assert stated.slowest == pytest.approx(even.slowest, abs=2)


@pytest.mark.parametrize("algorithm", ["direct", "low_latency", "two_level"])
def test_a_hot_rank_slows_the_whole(algorithm: str) -> None:
    """The card of a rank with four times the mean takes four times as long, and everybody waits."""
    load = (4.0,) + (28 / 31,) * 31
    even, hot = (cost(algorithm, Routing(256, K, load=given)) for given in ((), load))
    assert hot.slowest / even.slowest == pytest.approx(4, rel=0.15)


@pytest.mark.parametrize("algorithm", ["per_rank", "node_multicast"])
def test_merging_softens_a_hot_rank(algorithm: str) -> None:
    load = (4.0,) + (28 / 31,) * 31
    even, hot = (cost(algorithm, Routing(256, K, load=given)) for given in ((), load))
    assert 1.0 < hot.slowest / even.slowest < 4


def test_all_tokens_to_all_ranks_is_a_gather() -> None:
    """An all-gather of tokens and a reduce-scatter of results, whatever top-k is."""
    for operation, gathered in collectives.EXCHANGED.items():
        found = cost("all_gather", Routing(256, K), operation=operation)
        plain = collectives.cost_of(gathered, [range(32)], SIZE / K * 32, FOUR, LIBRARY)
        assert found.ticks.tolist() == plain.ticks.tolist()


def test_siblings_share_cards() -> None:
    """Two groups, each on half of every node: alone they have all cards of their members, together no fewer."""
    fabric = build(cluster(nodes=2, nics=4))
    groups = np.arange(16).reshape(2, 4, 2).transpose(2, 0, 1).reshape(2, 8)
    routing = Routing(64, 4)
    alone, both = (
        collectives.cost_of("dispatch", g, SIZE, fabric, LIBRARY, "direct", routing).slowest
        for g in (groups[:1], groups)
    )
    assert both == pytest.approx(2 * alone, rel=1e-3)
