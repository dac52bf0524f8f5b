"""Prefix caches: what is found, what is pinned, what gives way."""

from time import process_time

import pytest

from simulator.serving.replica.caches.prefix import PrefixCache
from tests.replicas import Setting, asked, check, run


def filled(*chains: tuple[int, ...], blocks: int = 1) -> PrefixCache:
    """A cache in which each chain was used and let go, one after the other."""
    cache = PrefixCache(blocks)
    for chain in chains:
        made = cache.insert(chain[cache.matched(chain) :])
        cache.unpin(chain[len(chain) - made :])
    return cache


def test_the_longest_match_from_the_start_is_found() -> None:
    cache = filled((1, 2, 3))
    assert [cache.matched(chain) for chain in ((1, 2, 3, 4), (1, 2), (1, 9, 3), (9, 2), ())] == [3, 2, 1, 0, 0]


def test_the_end_of_a_prefix_goes_before_its_beginning() -> None:
    cache = filled((1, 2, 3))
    assert cache.evict(1) == 1
    assert cache.matched((1, 2, 3)) == 2


def test_the_least_recently_used_goes_first() -> None:
    cache = filled((1,), (2,), (3,))
    cache.pin((1,))
    cache.unpin((1,))
    cache.evict(2)
    assert [cache.matched((identity,)) for identity in (1, 2, 3)] == [1, 0, 0]


def test_what_is_pinned_stays() -> None:
    cache = filled((1, 2), (3,))
    cache.pin((1,))
    assert cache.idle_blocks == 2
    assert cache.evict(10) == 2
    assert cache.matched((1, 2)) == 1
    assert cache.evict(1) == 0


def test_a_block_of_two_users_is_idle_when_both_are_done() -> None:
    cache = filled((1,))
    cache.pin((1,))
    cache.pin((1,))
    cache.unpin((1,))
    assert (cache.idle_blocks, cache.evict(1)) == (0, 0)
    cache.unpin((1,))
    assert (cache.idle_blocks, cache.evict(1)) == (1, 1)


def test_inserting_stops_at_what_somebody_else_made() -> None:
    cache = filled((3,))
    assert cache.insert((1, 2, 3, 4)) == 2
    assert cache.matched((1, 2, 3, 4)) == 3


def test_an_identity_may_stand_for_several_blocks() -> None:
    cache = filled((1,), (2,), blocks=4)
    assert cache.idle_blocks == 8
    assert cache.evict(5) == 8
    assert cache.idle_blocks == 0


def test_the_version_tells_when_a_match_may_have_changed() -> None:
    cache = filled((1, 2))
    before = cache.version
    cache.pin((1,))
    cache.unpin((1,))
    assert cache.version == before
    cache.evict(1)
    after = cache.version
    cache.insert((5,))
    assert before < after < cache.version


def dropping(identities: int) -> float:
    """Seconds of dropping so many idle identities one by one, the least of three times."""
    spent = []
    for _ in range(3):
        cache = filled(tuple(range(identities)))
        begin = process_time()
        while cache.idle_blocks:
            cache.evict(1)
        spent.append(process_time() - begin)
    return min(spent)


def test_dropping_one_block_costs_the_same_however_many_went_before() -> None:
    assert dropping(32_000) < 32 * dropping(4_000)  # 8 times, or 64 if each looked at all that are gone


CACHED = Setting(cached=True)


@pytest.mark.parametrize("block", [4, 8, 16])
def test_a_second_prompt_reuses_whole_pieces_and_works_on_at_least_one_token(block: int) -> None:
    chain = range(64 // block)
    for prompt, reused in (
        (64, 64 - block),
        (65, 64),
        (100, 64),
        (40, 40 // block * block - (40 % block == 0) * block),
    ):
        ran = run(asked([(0, 64, 2), (100_000, prompt, 2)], [chain, chain], prefix_block=block), CACHED)
        assert ran.ledger.cached == [0, reused]
        assert ran.log()[-2, 5] == prompt - reused
        check(ran)


def test_requests_that_run_together_find_what_is_computed_already() -> None:
    """The second comes while the first decodes; a third at the moment of the first finds nothing yet."""
    chain = range(10)
    ran = run(asked([(0, 40, 30), (0, 40, 30), (3000, 40, 2)], [chain] * 3, prefix_block=4), CACHED)
    assert ran.ledger.cached == [0, 0, 36]


def test_an_answer_is_found_by_the_turn_that_repeats_it() -> None:
    chain = range(20)
    rows = [(0, 40, 41), (-1, 90, 2)]
    ran = run(asked(rows, [chain, chain], prefix_block=4, follows=[-1, 0], delay=[0, 100]), CACHED)
    assert ran.ledger.cached == [0, 80]  # 40 + 40 in the cache when the last token came out


def test_prefixes_give_way_to_running_requests() -> None:
    ran = run(
        asked([(0, 40, 2), (10_000, 80, 30), (90_000, 40, 2)], [range(10), (), range(10)], prefix_block=4),
        Setting(cached=True, blocks=30),
    )
    assert ran.ledger.preemptions == [0, 0, 0]
    assert 0 < ran.ledger.cached[2] < 36
    check(ran)


def test_other_tokens_of_equal_length_are_not_found() -> None:
    ran = run(asked([(0, 40, 2), (90_000, 40, 2)], [range(10), range(50, 60)], prefix_block=4), CACHED)
    assert ran.ledger.cached == [0, 0]


def test_a_request_of_all_memory_runs_beside_idle_prefixes() -> None:
    """It is never kept waiting by what it could reuse itself."""
    for block in (4, 16):
        chain = range(32 // block)
        ran = run(
            asked([(0, 32, 1), (9_000, 32, 16)], [chain, chain], prefix_block=block),
            Setting("orca", cached=True, blocks=12),
        )
        assert ran.ledger.status == [0, 0]
