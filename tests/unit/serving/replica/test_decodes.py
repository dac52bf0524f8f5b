"""Decodes of a batch as sums: when they need blocks, and for how many iterations blocks suffice."""

import pytest

from simulator.serving.replica.caches.blocks import Blocks, Memory
from simulator.serving.replica.decodes import Decodes
from simulator.serving.replica.ledger import open_ledger
from tests.replicas import asked

PROMPTS = (7, 8, 12, 13)


@pytest.fixture
def decodes() -> Decodes:
    """Four sequences, each with its first token out and nine to come, over blocks of four tokens."""
    ledger = open_ledger(asked([(0, tokens, 10) for tokens in PROMPTS]))
    found = Decodes(Blocks(Memory(100, 4, 0, 1.0), ledger, None, "chunk"), grows=True, shared_tokens=0)
    for request in range(len(PROMPTS)):
        ledger.done[request] = 1
        found.join(request, 0)
    return found


def taken(iterations: int) -> int:
    """Blocks that the sequences take in their next iterations, counted for each."""
    return sum(-(-(tokens + iterations) // 4) + (-tokens // 4) for tokens in PROMPTS)


@pytest.mark.parametrize("count", range(1, 10))
def test_growth_is_that_of_each_sequence(decodes: Decodes, count: int) -> None:
    assert decodes.grown(count) == taken(count)


def test_the_next_iteration_needs_what_it_grows_by(decodes: Decodes) -> None:
    for done in range(9):
        assert decodes.need() == taken(done + 1) - taken(done)
        decodes.advance(1, done)


@pytest.mark.parametrize("iteration", [0, 1, 5])
@pytest.mark.parametrize("free", range(20))
def test_as_many_iterations_as_blocks_suffice_for(decodes: Decodes, iteration: int, free: int) -> None:
    decodes.counts, decodes.iteration = [0, 2, 0, 1], iteration
    most = max([count for count in range(1, 50) if decodes.grown(count) <= free], default=1)
    assert decodes.affordable(free) == (most, decodes.grown(most))


def test_those_whose_last_token_is_out_are_named_once(decodes: Decodes) -> None:
    assert decodes.until_done() == 9
    assert decodes.advance(9, 100) == [0, 1, 2, 3]
    assert decodes.members == {} and decodes.ends == []
    assert decodes.last == 100


def test_who_is_evicted_keeps_the_tokens_that_came_out(decodes: Decodes) -> None:
    decodes.advance(3, 100)
    assert decodes.evict(2) == 12 + 3
    assert decodes.blocks.ledger.done[2] == 4
    assert decodes.context == sum(tokens + 4 for tokens in PROMPTS) - 16 + 0
    assert (decodes.n, sum(decodes.counts)) == (3, 3)
