"""Communication in and out."""

import pytest

from simulator.errors import DeadlockError
from simulator.program.actions import Action, parse
from simulator.program.passes import add_communication, remove_communication
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, gpipe, interleaved, one_f_one_b

MADE = [gpipe(Pipeline(3, 2, 5)), one_f_one_b(Pipeline(4, 1, 6)), interleaved(Pipeline(4, 3, 8))]


def ranks(*lines: str) -> list[list[Action]]:
    return [[parse(cell) for cell in line.split(",")] for line in lines]


PAIRS = [
    (("0F0,0B0", "1F0,1B0"), ("0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0")),
    (
        ("0F0,0F1,0B0,0B1", "1F0,1I0,1F1,1I1,1W0,1W1"),
        (
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1",
            "1RECV_F0,1F0,1RECV_F1,1I0,1SEND_B0,1F1,1I1,1SEND_B1,1W0,1W1",
        ),
    ),
    (("0F0,1F0,1B0,0B0",), ("0F0,1F0,1B0,0B0",)),
    (  # a V: stages 1 and 2 on one rank, stages 0 and 3 on the other
        ("0F0,3F0,3B0,0B0", "1F0,2F0,2B0,1B0"),
        ("0F0,0SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,0RECV_B0,0B0", "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2B0,1B0,1SEND_B0"),
    ),
    (
        ("0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2", "1F0,1B0,(1F1;1I1)OVERLAP_F_B,1W1,1F2,1B2"),
        (
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,(0F2;0B0)OVERLAP_F_B,0SEND_F2,0RECV_B1,0B1,0RECV_B2,0B2",
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1RECV_F2,(1F1;1I1)OVERLAP_F_B,1SEND_B1,1W1,1F2,1B2,1SEND_B2",
        ),
    ),
]


@pytest.mark.parametrize(("compute", "complete"), PAIRS)
def test_golden_pairs(compute: tuple[str, ...], complete: tuple[str, ...]) -> None:
    assert add_communication(ranks(*compute)) == ranks(*complete)
    assert remove_communication(ranks(*complete)) == ranks(*compute)


@pytest.mark.parametrize("schedule", MADE)
def test_schedules_stay_sound(schedule: object) -> None:
    compute = schedule.actions()  # type: ignore[attr-defined]
    complete = add_communication(compute)
    validate(complete)
    assert remove_communication(complete) == compute


@pytest.mark.parametrize("schedule", MADE)
def test_neighbours_list_their_transfers_in_the_same_order(schedule: object) -> None:
    complete = add_communication(schedule.actions())  # type: ignore[attr-defined]
    sent, taken = {}, {}
    home = {action.stage: rank for rank, row in enumerate(complete) for action in row}
    for rank, row in enumerate(complete):
        for stage, kind, microbatch, _ in row:
            step = {"F": 1, "B": -1}.get(kind.name[-1], 0)
            if kind.name.startswith("SEND"):
                sent.setdefault((rank, home[stage + step]), []).append((stage, kind.name[-1], microbatch))
            if kind.name.startswith("RECV"):
                taken.setdefault((home[stage - step], rank), []).append((stage - step, kind.name[-1], microbatch))
    assert sent == taken


def test_a_schedule_that_cannot_be_carried_out() -> None:
    with pytest.raises(DeadlockError) as caught:
        add_communication(ranks("0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"))
    assert str(caught.value).splitlines() == [
        "deadlock: 2 of 2 ranks wait for ever",
        "rank 0: next is 0B0, which waits for 1B0 of rank 1",
        "rank 1: next is 1F1, which waits for 0F1 of rank 0",
    ]


def test_communication_is_not_added_twice() -> None:
    with pytest.raises(ValueError, match="has communication already"):
        add_communication(ranks("0F0,0SEND_F0"))
