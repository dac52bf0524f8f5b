"""The queue of a replica: who waits where, and how many tokens that is."""

from simulator.serving.replica.ledger import open_ledger
from simulator.serving.replica.queue import Queue
from tests.replicas import asked


def queue() -> Queue:
    return Queue(open_ledger(asked([(0, 10 * (i + 1), 5) for i in range(4)])))


def test_tokens_that_wait_are_those_of_who_waits() -> None:
    own = queue()
    for request in (0, 1, 2):
        own.enter(request)
    own.leave(1)
    own.leave(0)
    own.return_first(3)
    assert list(own.waiting) == [3, 2]
    assert own.pending == 40 + 30


def test_the_last_to_be_swapped_out_comes_back_first() -> None:
    own = queue()
    own.swap_out(0, 12)
    own.swap_out(1, 25)
    assert (list(own.swapped), own.swapped_tokens, own.ledger.remaining_tokens[:2]) == ([1, 0], 37, [1, 1])
    own.swap_in(25)
    assert (list(own.swapped), own.swapped_tokens) == ([0], 12)


def test_a_pause_is_noted_when_it_ends() -> None:
    own = queue()
    own.paused[2] = 100
    assert (own.resume(2, 130), own.resume(1, 130)) == (100, 130)
    assert own.ledger.pauses == [(2, 100, 130)]


def test_transferred_requests_join_by_number_as_slots_allow() -> None:
    own = queue()
    own.ready, own.coming = [3, 1, 2], 3
    assert own.ready_for(2) == [1, 2]
    assert (own.ready, own.coming) == ([3], 1)
    assert own.ready_for(2) == [3]
    assert (own.ready, own.coming) == ([], 0)
