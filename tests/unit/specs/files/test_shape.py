"""What annotations say about places in a file."""

from typing import Annotated, Literal

import pytest
from pydantic import Field

from simulator.specs.base import Spec
from simulator.specs.files import shape
from tests.unit.specs.garage import Car, Motor, Seats


class Either(Spec):
    """A field that may be of two kinds."""

    part: Motor | Seats | None = None
    """One or the other."""
    named: str | Motor = ""
    """A text is a text here."""


def test_specs_and_rooms_are_seen_through_unions_and_metadata() -> None:
    assert shape.specs(Annotated[Motor | None, Field()]) == (Motor,)
    assert shape.specs(Motor | Seats) == (Motor, Seats)
    assert shape.folders(Motor | None) == ("parts/motors",)
    assert shape.folders(Seats) == ()
    assert shape.folders(str | Motor) == ()
    assert shape.members(Annotated[int | None, Field()]) == (int, type(None))


@pytest.mark.parametrize(
    ("kind", "key", "expected"),
    [
        (Car, "seats", Seats),
        (Car, "none", None),
        (tuple[Motor, ...], "7", Motor),
        (list[Motor] | None, "0", Motor),
        (tuple[int, str], "1", str),
        (tuple[int, str], "2", None),
        (dict[str, Motor], "any", Motor),
        (dict[Literal["a"], int], "a", int),
        (list[int], "x", None),
        (int, "x", None),
        (None, "x", None),
    ],
)
def test_what_lies_below_a_key(kind: object, key: str, expected: object) -> None:
    assert shape.below(kind, key) == expected


def test_the_keys_of_a_union_are_those_of_all_members() -> None:
    part = shape.below(Either, "part")
    assert {"name", "delay", "rows"} <= shape.fields(part).keys()
    assert shape.canonical(part, "chairs") == "rows"


def test_a_field_of_both_members_may_be_of_either_type() -> None:
    assert set(shape.members(shape.below(Motor | Car, "name"))) == {str}
    assert set(shape.members(shape.below(Seats | Car, "rows"))) == {int}


def test_suggestions() -> None:
    assert shape.suggestion(Car, "rows") == "did you mean `seats.rows`?"
    assert shape.suggestion(Car, "chairs") == "did you mean `seats.rows`?"
    assert shape.suggestion(Car, "colur") == "did you mean `colour`?"
    assert shape.suggestion(Car, "Seats") == "did you mean `seats`?"
    assert shape.suggestion(Car, "seats.rows") == "write it nested: `seats: {rows: ...}`"
    assert shape.suggestion(int, "x") == ""
