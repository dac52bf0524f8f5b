"""A batch: what its iterations take, how far it is fast-forwarded, and where an arrival ends a stretch."""

import pytest

from simulator.results.serving.service import FINISHED, IN_FLIGHT
from tests.replicas import ENDLESS, Price, Setting, asked, check, gaps, run, system

PLAIN = Price(row=10, sample=0, read=1, edge=ENDLESS, base=0, overhead=50, each=0)


def test_a_request_alone_takes_what_its_iterations_take() -> None:
    """The prompt, then decodes over contexts of 20, 21, ... tokens and the next one."""
    ran = run(asked([(7, 20, 4)]), Setting(price=PLAIN))
    assert ran.ledger.scheduled == [7]
    assert ran.ledger.first_token == [7 + 50 + 200]
    assert ran.ledger.finish == [7 + 250 + 3 * 60 + 21 + 22 + 23]
    assert gaps(ran) == [81, 82, 83]


def test_the_output_head_is_paid_for_rows_that_give_a_token() -> None:
    price = Price(row=0, sample=5, read=0, edge=ENDLESS, base=0, overhead=1, each=0)
    ran = run(asked([(0, 20, 1)]), Setting(budget=8, price=price))
    assert ran.ledger.finish == [3 + 5]


def test_pieces_of_a_prompt_read_those_before() -> None:
    price = Price(row=0, sample=0, read=0, edge=ENDLESS, base=0, overhead=1, each=0, pair=1)
    ran = run(asked([(0, 20, 1)]), Setting(budget=8, price=price))
    assert ran.ledger.finish == [1 + 8 * 8 + 1 + 8 * 16 + 1 + 4 * 20]


def test_decodes_in_a_row_are_one_stretch() -> None:
    ran = run(asked([(0, 20, 100)]), Setting(price=PLAIN))
    assert [row[:7] for row in ran.log().tolist()] == [[0, 1, 250, 0, 0, 20, 1], [250, 99, 81, 1, 1, 0, 0]]
    stepping = run(asked([(0, 20, 100)]), Setting(price=PLAIN), fast_forward=False)
    assert len(stepping.log()) == 100
    assert stepping.ledger.finish == ran.ledger.finish


def test_a_stretch_ends_where_the_price_bends() -> None:
    price = Price(row=10, read=1, edge=60, base=0, overhead=50, each=0)
    ran = run(asked([(0, 20, 100)]), Setting(price=price))
    assert ran.log()[1:, 1].tolist() == [40, 59]
    assert ran.log()[2, 7] == 61


def test_a_stretch_ends_where_a_member_does() -> None:
    ran = run(asked([(0, 5, 10), (0, 5, 30)]), Setting(price=PLAIN))
    assert ran.log()[1:, [1, 4]].tolist() == [[9, 2], [20, 1]]


@pytest.mark.parametrize("late", [0, 1, 40, 80])
def test_an_arrival_cuts_a_stretch_at_the_boundary_at_or_after_it(late: int) -> None:
    boundaries = [250]
    for j in range(60):
        boundaries.append(boundaries[-1] + 81 + j)
    ran = run(asked([(0, 20, 50), (boundaries[7] + late, 10, 2)]), Setting(price=PLAIN))
    assert ran.ledger.scheduled[1] == boundaries[7 if late == 0 else 8]
    assert ran.log()[1, 1] == 7 + (late > 0)
    check(ran)


def test_a_cut_gives_back_the_blocks_that_were_taken_ahead() -> None:
    ran = run(asked([(0, 20, 90), (1000, 10, 2)]), Setting(price=PLAIN, blocks=30))
    assert ran.log()[2, 8] < 12  # blocks of 20 + 10 tokens, not of 110
    check(ran)


def test_an_arrival_that_finds_no_place_does_not_cut() -> None:
    ran = run(asked([(0, 20, 50), (300, 10, 2), (500, 10, 2)]), Setting(price=PLAIN, most=1))
    assert ran.log()[1:3, 1].tolist() == [1, 48]  # one cut, by the first of them
    assert ran.ledger.scheduled[1] == ran.ledger.finish[0]


def test_routers_see_tokens_in_the_middle_of_a_stretch() -> None:
    seen = {}
    for fast_forward in (True, False):
        made = system(asked([(0, 20, 50)]), Setting(price=PLAIN), fast_forward)
        counts: list[int] = []
        for tick in (100, 251, 900, 2000):
            made.agenda.at(
                tick, lambda _, made=made, counts=counts: counts.append(made.replicas[0].tokens(made.agenda.now))
            )
        made.agenda.run()
        seen[fast_forward] = counts
    assert seen[True] == seen[False]
    assert seen[True][1] == 21 and seen[True] == sorted(seen[True])


def test_a_batch_of_one_place_serves_one_after_the_other() -> None:
    ran = run(asked([(0, 10, 5)] * 5), Setting(price=PLAIN, most=1))
    assert ran.ledger.scheduled[1:] == ran.ledger.finish[:-1]


def test_stages_of_a_pipeline_overlap() -> None:
    """Two batches in flight on two stages: the second enters when the first has left stage one."""
    price = Price(row=10, sample=0, read=0, edge=ENDLESS, base=0, overhead=0, each=0)
    ran = run(asked([(0, 10, 1), (0, 10, 1)]), Setting(price=price, most=1, stages=2))
    assert ran.ledger.scheduled == [0, 100]
    assert ran.ledger.finish == [200, 300]


def test_what_moves_between_stages_takes_time() -> None:
    price = Price(row=10, sample=0, overhead=0, each=0, hop=3)
    ran = run(asked([(0, 10, 1)]), Setting(stages=2, price=price))
    assert ran.ledger.finish == [200 + 2 * 3 * 10]  # every stage of the stub has a next one


def test_a_serial_pipeline_has_one_batch_in_flight() -> None:
    price = Price(row=10, sample=0, read=0, edge=ENDLESS, base=0, overhead=0, each=0)
    ran = run(asked([(0, 10, 3), (0, 10, 3)]), Setting(price=price, most=2, stages=2, serial=True))
    assert len(ran.replicas[0].batches) == 1
    assert ran.ledger.finish == [2 * 200 + 2 * 2 * 20] * 2


def test_a_run_that_is_cut_short_leaves_requests_in_flight() -> None:
    made = system(asked([(0, 20, 5), (10, 20, 5)]), Setting(price=PLAIN, most=1))
    assert made.ledger.status == [IN_FLIGHT] * 2
    made.agenda.run()
    assert made.ledger.status == [FINISHED] * 2
