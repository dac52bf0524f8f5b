"""Foreign files as the loader sees them, whatever translates them."""

from pathlib import Path

import pytest

from simulator.errors import InputError, Problem
from simulator.registry import Registry
from simulator.specs import load_file
from simulator.specs.files import foreign
from simulator.specs.files.foreign import Translation, Translator
from simulator.specs.model import Model

FIELDS = {"name": "x", "layers": 2, "hidden": 8, "heads": 2, "vocabulary": 16}


@pytest.fixture
def translators(monkeypatch: pytest.MonkeyPatch) -> Registry[Translator]:
    """A registry of foreign readers that is empty."""
    registry: Registry[Translator] = Registry("reader of foreign files")
    monkeypatch.setattr(foreign, "TRANSLATORS", registry)
    return registry


def test_values_stand_where_they_come_from(write, translators: Registry[Translator]) -> None:
    write("m/config.json", '{\n  "depth": {\n    "n": 2}\n}\n')
    keys = {"layers": "depth.n", "heads": "depth.none"}
    translators.add("workloads/models")(lambda config: Translation(FIELDS, keys))
    loaded = load_file(Model, "m/config.json")
    assert loaded.spec.layers == 2
    assert loaded.origins["layers"] == "m/config.json:3"
    assert loaded.origins["heads"] == "m/config.json:2"
    assert loaded.origins["name"] == "m/config.json:1"
    assert loaded.origins["kv_heads"] == "derived"


def test_problems_stand_at_their_keys(write, translators: Registry[Translator]) -> None:
    def refuse(config: object) -> Translation:
        raise InputError(Problem("is odd", path="depth.n", hint="make it even"), Problem("no name", path="name"))

    translators.add("workloads/models")(refuse)
    write("m/config.json", '{\n  "depth": {\n    "n": 3}\n}\n')
    with pytest.raises(InputError) as caught:
        load_file(Model, "m/config.json")
    assert str(caught.value).splitlines() == [
        "m/config.json:3:10: depth.n: is odd; make it even",
        "m/config.json:1:1: name: no name",
    ]


def test_without_a_reader_the_message_says_what_to_import(write, translators: Registry[Translator]) -> None:
    write("m/config.json", "{}")
    with pytest.raises(InputError, match=r"nothing that reads a config\.json is loaded; import simulator\.run"):
        load_file(Model, "m/config.json")


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("m", True),
        ("./m", True),
        ("m/config.json", True),
        ("m/other.json", True),
        ("other", False),
        ("m/none.json", False),
        ("m/\0", False),
        ("x" * 5000, False),
        ("empty", False),
    ],
)
def test_a_reference_is_a_file_or_a_folder_that_holds_one(write, reference: str, found: bool) -> None:
    write("m/config.json", "{}")
    write("m/other.json", "{}")
    write("empty/readme.txt", "-")
    path = foreign.find(reference, ("workloads/models",), None)
    assert (path is not None) == found
    assert foreign.find(reference, ("hardware_profiles/nodes",), None) is None


def test_a_reference_starts_from_the_file_that_names_it(write) -> None:
    place = write("deep/m/config.json", "{}")
    assert foreign.find("m", ("workloads/models",), Path("deep").absolute()) == place
    assert not foreign.is_foreign(place, ("hardware_profiles/nodes",))
    assert not foreign.is_foreign(Path("m.yaml"), ("workloads/models",))
