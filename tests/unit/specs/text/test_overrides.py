"""Overrides: set, add, remove, lists by index, and messages that name the override."""

import pytest

from simulator.errors import InputError
from simulator.specs import load_file
from simulator.specs.text.overrides import parse
from simulator.specs.text.yaml_text import plain
from tests.unit.specs.garage import Car


def car(*changes: str) -> Car:
    return load_file(Car, "small", changes).spec


def refusal(*changes: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        car(*changes)
    return str(caught.value).splitlines()


def test_the_three_forms() -> None:
    assert (parse("a.b=1").action, parse("+a.b=1").action, parse("~a.b").action) == ("set", "add", "remove")
    assert parse("a.b.0=x=y").keys == ("a", "b", "0")
    assert plain(parse("a={x: [1, yes, 1e3]}").value) == {"x": [1, "yes", 1000.0]}
    assert plain(parse("a=").value) is None
    assert plain(parse("a=80 GB").value) == "80 GB"


def test_a_value_is_set(garage) -> None:
    assert car("seats.rows=5").seats.rows == 5
    assert car("name=big").name == "big"
    assert car("colour=green", "colour=red").colour == "red"


def test_a_value_may_be_set_where_the_file_says_nothing(garage) -> None:
    garage("cars/small.yaml", "name: small\nmotor: diesel\n")
    assert car("seats.rows=5").seats.rows == 5
    assert car("seats={rows: 3, heated: true}").seats.heated is True
    assert car("spare.name=x", "spare.delay=1 ms").spare.name == "x"


def test_a_value_inside_a_referenced_file_is_set(garage) -> None:
    assert car("motor.delay=7 ms").motor.delay == 7e-3
    assert car("motor.load.value=0.25").motor.load.source == "test stand"


def test_a_reference_is_followed(garage) -> None:
    assert car("motor=motors/electric").motor.name == "electric"
    assert car("motor=motors/electric", "motor.name=e2").motor.name == "e2"
    assert car("motor={extends: electric, memory: 1 kB}").motor.memory == 1000
    assert car("+motors=[diesel, electric]").motors[1].name == "electric"


def test_a_bare_value_of_a_figure_names_the_override_as_its_source(garage) -> None:
    load = car("motor.load=0.75").motor.load
    assert (load.value, load.status, load.source) == (0.75, "estimate", "override `motor.load=0.75`")


def test_foreign_names_are_understood(garage) -> None:
    assert car("seats.chairs=4").seats.rows == 4
    assert car("engine.delay=1 us").motor.delay == 1e-6


def test_lists_go_by_index(garage) -> None:
    garage("cars/small.yaml", "name: small\nmotor: diesel\npair: [1, 2]\nmotors: [diesel, electric]\n")
    assert car("pair.1=9").pair == (1, 9)
    assert car("motors.0.name=d2").motors[0].name == "d2"
    assert car("motors.0=electric").motors[0].name == "electric"
    assert [motor.name for motor in car("+motors.2=diesel").motors] == ["diesel", "electric", "diesel"]
    assert [motor.name for motor in car("~motors.0").motors] == ["electric"]


def test_free_keys_are_added_and_removed(garage) -> None:
    assert car("sizes.a=7").sizes == {"a": 7, "b": 2}
    assert car("+sizes.c=3").sizes == {"a": 1, "b": 2, "c": 3}
    assert car("~sizes.a").sizes == {"b": 2}
    assert car("~sizes").sizes == {}
    assert car("~seats").seats.rows == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seats.rwos=5", "seats.rwos: unknown key `rwos`; did you mean `rows`?"),
        ("rows=5", "rows: unknown key `rows`; did you mean `seats.rows`?"),
        ("seats.chiars=5", "seats.chiars: unknown key `chiars`; did you mean `chairs`?"),
        ("sizes.c=3", "sizes.c: unknown key `c`; write `+` before the path to add it"),
        ("+sizes.a=3", "sizes.a: is there already; leave out the `+` to change it"),
        ("+motors.3=diesel", "motors.3: is not the next item; the list has 0: add number 0"),
        ("motors.x=diesel", "motors.x: holds no keys"),
        ("motors.3=diesel", "motors.3: unknown key `3`; write `+` before the path to add it"),
        ("~spare", "spare: there is nothing to remove"),
        ("~spare.name", "spare: there is nothing to remove"),
        ("name.x=3", "name.x: holds no keys"),
        ("name", "is no override; write `key.path=value`, `+key.path=value` or `~key.path`"),
        ("~name=3", "is no override; write `~key.path`"),
        ("=3", "a key of the path is empty; write `training.parallel.tp=8`"),
        ("", "is no override; write `key.path=value`, `+key.path=value` or `~key.path`"),
        ("a..b=3", "a key of the path is empty; write `training.parallel.tp=8`"),
        ("name=[", "no YAML: did not find expected node content; check indentation, brackets and quotes"),
        ("sizes={a: 1, a: 2}", "duplicate key `a`; keep one of them"),
        ("motor=none", "motor: there is no motor `none`; known: `diesel`, `electric`"),
        ("seats.rows=many", "seats.rows: `many` is not a whole number; write a whole number"),
        ("seats.rows=0", "seats.rows: `0` is out of range; write 1 or more"),
        ("motor.delay=5", "motor.delay: `5` has no unit: write a unit, for example `5 ms`"),
        ("~name", "car.yaml"),
    ],
)
def test_a_mistake_names_the_override(garage, change: str, message: str) -> None:
    lines = refusal(change)
    assert len(lines) == 1
    if change != "~name":  # what is missing then is missing in the file
        assert lines == [f"override `{change}`: {message}"]
    else:
        assert lines[0].startswith("cars/small.yaml:1:1: name: `name` is missing")


def test_all_mistakes_are_reported_at_once(garage) -> None:
    assert [line.split("`")[1] for line in refusal("seats.rwos=5", "seats.rows=x", "motor=none", "colour=blue")] == [
        "seats.rwos=5",
        "motor=none",
        "seats.rows=x",
        "colour=blue",
    ]


def test_a_long_override_is_cut_in_messages(garage) -> None:
    assert len(refusal("nope=" + "x" * 10_000)[0]) < 400


def test_hostile_values_are_bounded(garage) -> None:
    assert "nested more than" in refusal("name=" + "[" * 20_000)[0]
    assert "unknown key" in refusal(".".join("a" * 20_000) + "=1")[0]
