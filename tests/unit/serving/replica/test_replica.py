"""A replica: its queue, its blocks, who must make room and how they come back."""

import pytest

from simulator.results.serving.service import FINISHED, REJECTED
from simulator.serving.policies import POLICIES
from simulator.serving.workload.generate import NEVER
from tests.replicas import ENDLESS, Price, Setting, System, asked, check, gaps, run

PLAIN = Price(row=10, sample=0, read=0, edge=ENDLESS, base=0, overhead=50, each=0)


def test_blocks_in_use_follow_the_tokens() -> None:
    ran = run(asked([(0, 10, 12)]), Setting(price=PLAIN), fast_forward=False)
    assert ran.log()[:, 8].tolist() == [3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]


@pytest.mark.parametrize("policy", POLICIES.names())
def test_a_request_that_can_never_run_is_rejected_at_once(policy: str) -> None:
    rows = [(0, 10, 4), (5, 100, 21), (6, 100, 20), (7, 60, 5), (8, 10, 4)]
    ran = run(asked(rows), Setting(policy, budget=128, blocks=30, context=120))
    assert ran.ledger.status == [FINISHED, REJECTED, FINISHED, FINISHED, FINISHED]
    assert ran.ledger.replica[1] == ran.ledger.scheduled[1] == ran.ledger.finish[1] == -1
    tight = run(asked(rows), Setting(policy, budget=128, blocks=20))
    assert tight.ledger.status == [FINISHED, REJECTED, REJECTED, FINISHED, FINISHED]
    check(tight)


def test_what_follows_two_that_end_together_comes_in_its_own_order() -> None:
    """The end of 0 is told before that of 1; 2, which follows 1, goes before 3 all the same."""
    rows = [(0, 10, 5), (0, 10, 5), (NEVER, 20, 2), (NEVER, 20, 2)]
    ran = run(asked(rows, follows=[NEVER, NEVER, 1, 0], delay=[0] * 4), Setting(budget=20))
    assert ran.ledger.finish[0] == ran.ledger.finish[1] == ran.ledger.arrival[2] == ran.ledger.arrival[3]
    assert ran.ledger.scheduled[2] < ran.ledger.scheduled[3]


def test_what_follows_a_rejected_request_comes_all_the_same() -> None:
    ran = run(asked([(9, 1000, 2), (NEVER, 10, 2)], follows=[NEVER, 0], delay=[0, 30]), Setting(blocks=30))
    assert ran.ledger.status == [REJECTED, FINISHED]
    assert ran.ledger.arrival == [9, 39]


CROWDED = [(0, 40, 60), (1, 40, 60)]


def crowded(**setting: int) -> System:
    """Two requests that fit together until they have grown."""
    ran = run(asked(CROWDED), Setting(price=PLAIN, blocks=30, budget=128, **setting))  # type: ignore[arg-type]
    check(ran)
    return ran


def test_the_one_that_came_last_makes_room_and_is_computed_again() -> None:
    ran = crowded()
    assert ran.ledger.preemptions == [0, 1]
    ((request, begin, end),) = ran.ledger.pauses
    assert request == 1
    rows = ran.log().tolist()
    again = [row for row in rows if row[6]][-1]
    assert again[0] == ran.ledger.finish[0]
    assert again[5] == 40 + 20  # its prompt and what had come out
    assert end == again[0] + again[2]
    assert end - begin in gaps(ran)


def test_swapping_brings_it_back_without_computing() -> None:
    ran = crowded(swap=1000)
    assert ran.ledger.preemptions == [0, 1]
    assert sum(row[5] for row in ran.log().tolist()) == 80
    assert ran.ledger.pauses[0][2] == ran.ledger.finish[0]
    assert max(gaps(ran)) > ran.ledger.pauses[0][2] - ran.ledger.pauses[0][1]


def test_copies_to_and_from_the_host_are_told() -> None:
    ran = crowded(swap=1000)
    assert ran.ledger.pauses
    assert ran.replicas[0].record.copied == 2 * 59  # 40 tokens and 19 of the 20 that came out, a tick each, both ways
    assert crowded().replicas[0].record.copied == 0


def test_a_full_host_memory_leaves_computing_again() -> None:
    assert crowded(swap=58).ledger.finish == crowded().ledger.finish


def test_those_that_come_back_go_before_those_that_wait() -> None:
    ran = run(asked([*CROWDED, (2, 40, 2)]), Setting(price=PLAIN, blocks=30, budget=128))
    started = [request for _, chunks, _ in ran.replicas[0].admitted for request, _ in chunks]
    assert started == [0, 1, 1, 2]


@pytest.mark.parametrize("policy", ["vllm-v0", "vllm-v1"])
@pytest.mark.parametrize("swap", [0, 1000])
@pytest.mark.parametrize("decoders", [0, 1])
def test_short_ones_that_keep_coming_starve_nobody_who_lost_its_memory(policy: str, swap: int, decoders: int) -> None:
    """Two long requests that do not fit together, and ever more short ones that would fill what the first one leaves:
    the older ones are done long before the last of these comes or its cache moves."""
    stream = [(500 * i, 8, 20) for i in range(2, 120)]
    setting = Setting(policy, budget=200, most=16, blocks=48, swap=swap, decoders=decoders)
    ran = run(asked([(0, 60, 60), (1, 60, 60), *stream]), setting)
    check(ran)
    assert sum(ran.ledger.preemptions)
    assert max(ran.ledger.finish[:2]) < max(ran.ledger.finish) / 3


def test_a_sequence_comes_back_only_where_its_next_token_has_room() -> None:
    """30 blocks; tokens that end with a block need another one at once."""
    rows = [(0, 100, 18), (0, 1, 29), (0, 1, 11)]
    for stages in (1, 2):
        check(run(asked(rows), Setting(budget=32, blocks=30, swap=1000, stages=stages)))


def test_batches_of_a_pipeline_do_not_hold_each_other_up_for_ever() -> None:
    for rows in ([(0, 100, 1), (0, 100, 1)], [(0, 100, 1), (0, 100, 1), (4479, 100, 1)]):
        for stages in (2, 3):
            check(run(asked(rows), Setting(blocks=40, stages=stages)))


@pytest.mark.parametrize("stages", [2, 3])
def test_no_batch_of_a_pipeline_takes_more_back_than_it_has_places(stages: int) -> None:
    rows = [(1200, 1, 8), (1900, 16, 8), (2100, 16, 8), (2500, 1, 3), (3600, 1, 1)]
    check(run(asked(rows), Setting(budget=8, most=1, blocks=12, swap=60, stages=stages)))


def test_prompts_that_hold_each_other_up_start_again() -> None:
    ran = run(asked([(0, 60, 2), (0, 60, 2)]), Setting(budget=32, blocks=16, most=2))
    check(ran)
    assert ran.ledger.status == [FINISHED] * 2


def test_busy_time_is_the_time_of_its_iterations() -> None:
    ran = crowded()
    rows = ran.log()
    assert ran.replicas[0].record.busy == int((rows[:, 1] * rows[:, 2]).sum())


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_users_who_wait_for_answers_are_never_more_than_there_are(stages: int) -> None:
    count, users = 40, 5
    rows = [(0 if i < users else NEVER, 10, 6) for i in range(count)]
    follows = [NEVER] * users + [-2] * (count - users)
    ran = run(asked(rows, follows=follows, delay=[0] * users + [100] * (count - users)), Setting(stages=stages))
    moments = sorted([(t, 1) for t in ran.ledger.arrival] + [(t, -1) for t in ran.ledger.finish])
    present = 0
    for _, change in moments:
        present += change
        assert present <= users
    assert ran.ledger.status == [FINISHED] * count
