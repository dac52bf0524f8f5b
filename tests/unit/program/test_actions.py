"""The text form of instructions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.program.actions import COMMUNICATION, COMPUTE, Action, Kind, parse

numbers = st.integers(0, 999_999)
passes = st.tuples(numbers, st.sampled_from(COMPUTE), numbers).map(lambda columns: Action(*columns))
plain = st.tuples(numbers, st.sampled_from([*COMPUTE, *COMMUNICATION]), numbers).map(lambda columns: Action(*columns))
whole = st.tuples(numbers, st.sampled_from([Kind.UNSHARD, Kind.REDUCE_GRAD])).map(lambda columns: Action(*columns))
overlapped = st.lists(passes, min_size=2, max_size=3).map(lambda parts: Action(-1, Kind.OVERLAP_F_B, -1, tuple(parts)))
actions = plain | whole | overlapped


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("2F0", Action(2, Kind.F, 0)),
        ("2B0", Action(2, Kind.B, 0)),
        ("1I3", Action(1, Kind.I, 3)),
        ("0W3", Action(0, Kind.W, 3)),
        ("1SEND_F3", Action(1, Kind.SEND_F, 3)),
        ("2RECV_F3", Action(2, Kind.RECV_F, 3)),
        ("12SEND_B34", Action(12, Kind.SEND_B, 34)),
        ("11RECV_B34", Action(11, Kind.RECV_B, 34)),
        ("0UNSHARD", Action(0, Kind.UNSHARD)),
        ("0RESHARD", Action(0, Kind.RESHARD)),
        ("0REDUCE_GRAD", Action(0, Kind.REDUCE_GRAD)),
        ("(0F7;7B3)OVERLAP_F_B", Action(-1, Kind.OVERLAP_F_B, -1, (Action(0, Kind.F, 7), Action(7, Kind.B, 3)))),
    ],
)
def test_text_form(text: str, action: Action) -> None:
    assert parse(text) == action
    assert parse(f" {text}\t") == action
    assert str(action) == text


@given(actions)
def test_round_trip(action: Action) -> None:
    assert parse(str(action)) == action


@pytest.mark.parametrize(
    "text", ["", "F0", "2", "2X0", "2f0", "-1F0", "2F-1", "2F0 2F1", "2F0;", "²F0", "2SEND3", "()"]
)
def test_what_is_no_instruction(text: str) -> None:
    with pytest.raises(ValueError, match="for example `2F0`"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2F", "lacks its microbatch; write for example `2F0`"),
        ("1SEND_F", "lacks its microbatch"),
        ("1000000F0", "out of range"),
        ("0F1000000", "out of range"),
        ("(0F1)OVERLAP_F_B", "two passes or more"),
        ("(0F1;0SEND_F1)OVERLAP_F_B", "two passes or more"),
        ("(0F1;zz)OVERLAP_F_B", "`zz` is no instruction"),
        ("9" * 10_000 + "F0", "is no instruction"),
    ],
)
def test_what_is_wrong_with_an_instruction(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse(text)
    assert len(str(caught.value)) < 200


def test_passes_of_an_instruction() -> None:
    assert parse("2F0").passes() == (parse("2F0"),)
    assert parse("(0F7;7B3)OVERLAP_F_B").passes() == (parse("0F7"), parse("7B3"))
