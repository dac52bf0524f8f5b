"""What makes a schedule sound."""

import pytest

from simulator.errors import DeadlockError, InputError
from simulator.program.actions import Action, Kind, parse
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, gpipe, interleaved, one_f_one_b

MADE = [gpipe(Pipeline(3, 2, 5)), one_f_one_b(Pipeline(4, 1, 2)), interleaved(Pipeline(4, 3, 8))]


def ranks(*lines: str) -> list[list[Action]]:
    return [[parse(cell) for cell in line.split(",") if cell] for line in lines]


SOUND = [
    ("0F0,0B0",),
    ("0F0,0B0", ""),
    ("0UNSHARD,0F0,0I0,0W0,0REDUCE_GRAD,0RESHARD",),
    ("0F0,0F1,0B0,0B1", "1F0,1I0,1F1,1W0,1B1"),
    ("0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"),
    ("0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2",),
]


@pytest.mark.parametrize("lines", SOUND)
def test_sound(lines: tuple[str, ...]) -> None:
    assert validate(ranks(*lines)).ranks == len(lines)


@pytest.mark.parametrize("schedule", MADE)
def test_our_schedules_are_sound(schedule: object) -> None:
    assert validate(schedule) is schedule  # type: ignore[arg-type]


UNSOUND = [
    (("0F0,0B0", "2F0,2B0"), "stage 1 is missing, though there is stage 2"),
    (("0F1,0B1",), "microbatch 0 is missing, though there is microbatch 1"),
    (("0F0,0B0", "0F1,0B1"), "s.csv:2: rank 1: 0F1 belongs to stage 0, which rank 0 runs too"),
    (("0F0,0F0,0B0",), "s.csv:1: rank 0: 0F0 stands there twice"),
    (("0F0,0B0,0B0",), "s.csv:1: rank 0: 0B0 stands there twice"),
    (("0F0,0F1,0B0",), "s.csv: lacks 0B1; every stage needs F and B (or I and W) of every microbatch"),
    (("0F0,0B0,0B1",), "s.csv: lacks 0F1"),
    (("0F0,0B0,0I0",), "s.csv: 0B0 stands beside its halves I or W"),
    (("0F0,0I0",), "s.csv: lacks 0W0"),
    (("0F0,0W0",), "s.csv: lacks 0I0"),
    (("0B0,0F0",), "s.csv:1: rank 0: 0B0 stands before 0F0"),
    (("0F0,0W0,0I0",), "s.csv:1: rank 0: 0W0 stands before 0I0"),
    (("0I0,0F0,0W0",), "s.csv:1: rank 0: 0I0 stands before 0F0"),
    (("0SEND_F0,0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"), "rank 0: 0SEND_F0 stands before 0F0"),
    (("0F0,0SEND_F0,0RECV_B0,0B0", "1F0,1RECV_F0,1B0,1SEND_B0"), "s.csv:2: rank 1: 1F0 stands before 1RECV_F0"),
    (("0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0"), "s.csv: lacks 1SEND_B0"),
    (("0F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"), "s.csv: lacks 0SEND_F0"),
    (("0F0,1F0,0SEND_F0,1B0,0B0",), "s.csv: 0SEND_F0 moves nothing between ranks"),
    (("0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0,1SEND_F0"), "1SEND_F0 moves nothing between ranks"),
]


@pytest.mark.parametrize(("lines", "message"), UNSOUND)
def test_unsound(lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        validate(ranks(*lines), "s.csv")
    assert message in str(caught.value)


def test_a_deadlock_says_who_waits_for_whom() -> None:
    with pytest.raises(DeadlockError) as caught:
        validate(ranks("0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"))
    assert str(caught.value).splitlines() == [
        "deadlock: 2 of 2 lanes wait for ever",
        "they wait in a circle: rank 0 -> rank 1 -> rank 0",
        "rank 0: next is 0B0, which waits for 1B0 of rank 1",
        "rank 1: next is 1F1, which waits for 0F1 of rank 0",
    ]


def test_a_deadlock_of_receives() -> None:
    stuck = ranks("0F0,0RECV_B0,0SEND_F0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0")
    with pytest.raises(DeadlockError, match="rank 0: next is 0RECV_B0, which waits for 1SEND_B0 of rank 1"):
        validate(stuck)


def test_a_deadlock_within_a_rank() -> None:
    with pytest.raises(DeadlockError, match="rank 0: next is 1F0, which waits for 0F0 of rank 0"):
        validate(ranks("1F0,0F0,1B0,0B0"))
    with pytest.raises(DeadlockError, match="rank 0: next is 1F0, which waits for 0F0 of rank 0"):
        validate(ranks("1F0,0F0,1SEND_F0,1RECV_B0,1B0,0B0", "2RECV_F0,2F0,2B0,2SEND_B0"))


def test_sizes_that_would_fill_the_memory() -> None:
    rows = [Action(0, Kind.F, i) for i in range(40_000)] + [Action(i, Kind.F, 0) for i in range(40_000)]
    with pytest.raises(InputError, match="40000 stages x 40000 microbatches need 1600000000"):
        validate([rows[1:]])


def test_problems_are_bounded() -> None:
    many = ranks(",".join(f"0B{i},0F{i}" for i in range(500)), ",".join(f"1B{i},1F{i}" for i in range(500)))
    with pytest.raises(InputError) as caught:
        validate(many)
    assert 0 < len(caught.value.problems) <= 20
