"""Registries: names, misspelt names, and plugins of third parties."""

from collections.abc import Callable, Iterator
from importlib import metadata
from types import SimpleNamespace

import pytest

from simulator import registry
from simulator.errors import InputError
from simulator.registry import Registry

Load = Callable[[], None]


@pytest.fixture(autouse=True)
def _fresh_plugins() -> Iterator[None]:
    registry.load_plugins.cache_clear()
    yield
    registry.load_plugins.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, load: Load) -> list[str]:
    """Pretend that one plugin is installed; the returned list has an entry per look at the entry points."""
    looked: list[str] = []

    def entry_points(*, group: str) -> list[SimpleNamespace]:
        looked.append(group)
        return [SimpleNamespace(name="third", value="third.party", load=load)]

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    return looked


def test_a_name_gives_the_thing() -> None:
    schedules: Registry[Load] = Registry("schedule")

    @schedules.add("gpipe")
    def gpipe() -> None: ...

    assert schedules.get("gpipe") is gpipe
    assert schedules.names() == ("gpipe",)


def test_a_misspelt_name_is_named_with_the_nearest() -> None:
    schedules: Registry[int] = Registry("schedule")
    schedules.add("gpipe")(1)
    with pytest.raises(InputError) as caught:
        schedules.get("gpip")
    assert str(caught.value) == "unknown schedule `gpip`; did you mean `gpipe`?"


def test_a_name_like_none_is_told_with_all_that_are_known() -> None:
    schedules: Registry[int] = Registry("schedule")
    for name in "abcdefghijklmnop":
        schedules.add(name * 4)(1)
    with pytest.raises(InputError, match=r"unknown schedule `zzz`; known: `aaaa`, `bbbb`, .*, `pppp`$"):
        schedules.get("zzz")


def test_a_name_belongs_to_one_thing() -> None:
    schedules: Registry[object] = Registry("schedule")
    thing = schedules.add("gpipe")(object())
    assert schedules.add("gpipe")(thing) is thing
    with pytest.raises(ValueError, match="two things are registered as schedule 'gpipe'"):
        schedules.add("gpipe")(object())


def test_plugins_are_loaded_only_when_a_name_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    schedules: Registry[int] = Registry("schedule")
    schedules.add("gpipe")(1)
    looked = install(monkeypatch, lambda: schedules.add("zigzag")(2) and None)
    assert schedules.get("gpipe") == 1
    assert looked == []
    assert schedules.get("zigzag") == 2
    assert schedules.names() == ("gpipe", "zigzag")
    assert looked == ["simulator.plugins"]


def test_a_broken_plugin_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("no luck")

    install(monkeypatch, broken)
    with pytest.raises(InputError) as caught:
        Registry[int]("schedule").names()
    assert str(caught.value) == "plugin `third` (third.party) cannot be loaded: no luck"
