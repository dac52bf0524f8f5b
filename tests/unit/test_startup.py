import dataclasses
import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest

from simulator.startup import methods_at_first_use
from tests.effort import PATIENCE_S
from tests.unit.cli.conftest import ROOT

with methods_at_first_use():

    @dataclass(frozen=True, slots=True, order=True)
    class Point:
        x: int
        y: float = 2.0

    @dataclass(slots=True)
    class Open:
        items: list[int] = field(default_factory=list)
        size: int = field(init=False, default=0)

        def __post_init__(self) -> None:
            self.size = len(self.items)

    @dataclass(frozen=True)
    class Base:
        a: int

    @dataclass(frozen=True, eq=False)
    class Named(Base):
        b: str = "b"

    class Plain(Base):
        """A class that is not made by the decorator, of one that is."""


def ordinary() -> Any:
    return dataclasses.make_dataclass(
        "Point", [("x", int), ("y", float, dataclasses.field(default=2.0))], frozen=True, slots=True, order=True
    )


def test_methods_do_what_those_of_dataclasses_do() -> None:
    other, p = ordinary(), Point(1)
    assert repr(p) == repr(other(1)) == "Point(x=1, y=2.0)"
    assert p == Point(1, 2.0) != Point(2)
    assert hash(p) == hash(other(1))
    assert sorted([Point(3), Point(1, 5.0), p]) == [p, Point(1, 5.0), Point(3)]
    assert Point(1) <= Point(1)
    assert dataclasses.replace(p, x=4) == Point(x=4)
    assert dataclasses.asdict(p) == {"x": 1, "y": 2.0}
    assert pickle.loads(pickle.dumps(p)) == p
    with pytest.raises(dataclasses.FrozenInstanceError):
        p.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del p.x
    for arguments in ((), (1, 2, 3)):
        with pytest.raises(TypeError, match="__init__"):
            Point(*arguments)
    with pytest.raises(TypeError, match="z"):
        Point(1, z=3)  # type: ignore[call-arg]


def test_defaults_and_what_follows_the_making() -> None:
    first, second = Open([1, 2]), Open()
    assert (first.size, second.size) == (2, 0)
    second.items.append(3)
    assert Open().items == []
    assert Open([3]) != Open([4])
    with pytest.raises(TypeError, match="unhashable"):
        hash(first)


def test_classes_that_inherit() -> None:
    assert Named(1).b == "b"
    assert Named(1) == Named(1, "c") != Named(2)  # as its base compares
    assert Plain(2) == Plain(2)
    assert repr(Plain(2)) == "Plain(a=2)"
    assert Base(2) == Base(2) != Base(3)
    assert Plain(2) != Base(2)


def test_a_method_takes_its_place_at_the_first_call() -> None:
    with methods_at_first_use():

        @dataclass
        class Thing:
            a: int

    assert Thing.__init__.__code__.co_name == "stand_in"
    assert Thing(1).a == 1
    assert Thing.__init__.__code__.co_name == "__init__"
    assert Thing.__init__.__qualname__.endswith("Thing.__init__")
    assert Thing.__eq__.__code__.co_name == "stand_in"


def test_nothing_is_changed_afterwards() -> None:
    writer = dataclasses._create_fn  # type: ignore[attr-defined]
    with pytest.raises(KeyError), methods_at_first_use():
        assert dataclasses._create_fn is not writer  # type: ignore[attr-defined]
        raise KeyError
    assert dataclasses._create_fn is writer  # type: ignore[attr-defined]


def test_other_pythons_make_classes_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.startup._WRITER", "no_such_function")
    with methods_at_first_use():
        made = dataclasses.make_dataclass("Made", [("a", int)])
    assert made(1) == made(1)
    assert made.__init__.__code__.co_name == "__init__"


def test_few_methods_are_compiled_where_few_are_used() -> None:
    code = (
        "import dataclasses; made = []; writer = dataclasses._create_fn\n"
        "def counted(*a, **k): made.append(a[0]); return writer(*a, **k)\n"
        "dataclasses._create_fn = counted\n"
        "from simulator.cli import main\n"
        "assert main(['run', 'scenarios/quickstart.yaml', '--quiet']) == 0\n"
        "print('methods', len(made))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True, cwd=ROOT
    )
    assert int(done.stdout.rpartition("methods")[2]) < 300  # of some 1,200
