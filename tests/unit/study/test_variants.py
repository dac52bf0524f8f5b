"""Values of keys listed on the command line, and their combinations."""

import pytest

from simulator.errors import InputError
from simulator.study.variants import Axis, combinations, parse_axes, parse_axis, short_name


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1,2,4", ("1", "2", "4")),
        ("a.b=1", ("1",)),
        ("a.b= 1 s , 2 s ", ("1 s", "2 s")),
        ("a.b={tp: 1, pp: 2},{tp: 4}", ("{tp: 1, pp: 2}", "{tp: 4}")),
        ("a.b=[1, 2],[3]", ("[1, 2]", "[3]")),
        ("a.b='x, y',z", ("'x, y'", "z")),
    ],
)
def test_values_are_split_at_commas_outside_brackets_and_quotes(text: str, values: tuple[str, ...]) -> None:
    assert parse_axis(text) == Axis("a.b", values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b", "lists no values"),
        ("=1,2", "lists no values"),
        ("~a.b=1", "lists no values"),
        ("a.b=1,,2", "a value of the list is empty"),
        ("a.b=", "a value of the list is empty"),
        ("a.b=1,2,1", "`1` is listed twice"),
        ("a..b=1,2", "a key of the path is empty"),
    ],
)
def test_what_is_no_list_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_axis(text)


def test_all_combinations_come_with_the_last_key_changing_fastest() -> None:
    axes = parse_axes(["a.tp=1,2", "+b.x=u,v"])
    assert list(combinations(axes)) == [
        ("a.tp=1", "+b.x=u"),
        ("a.tp=1", "+b.x=v"),
        ("a.tp=2", "+b.x=u"),
        ("a.tp=2", "+b.x=v"),
    ]
    assert list(combinations(())) == [()]


def test_a_key_has_one_list_and_combinations_are_bounded() -> None:
    with pytest.raises(InputError, match="`a` has two lists"):
        parse_axes(["a=1", "+a=2"])
    many = ",".join(map(str, range(200)))
    with pytest.raises(InputError, match="40,000 combinations are too many"):
        parse_axes([f"a={many}", f"b={many}"])


def test_names_are_short_where_they_stay_clear() -> None:
    assert short_name(()) == ""
    assert short_name(("serving.parallel.tp=2", "+serving.batching.token_budget=512")) == "tp 2, token_budget 512"
    assert short_name(("a.tp=2", "b.tp=4")) == "a.tp 2, b.tp 4"
