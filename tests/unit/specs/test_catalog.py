"""Where names lead: paths first, then the working folder, then the installed data."""

from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.specs import catalog
from simulator.specs.hardware import Cluster
from tests.unit.specs.garage import Car, Motor, Seats

ROOMS = ("parts/motors",)


def test_a_checkout_has_its_data_beside_the_package() -> None:
    assert (catalog.data_root() / "hardware_profiles").is_dir()
    assert "selene" in catalog.names(Cluster)


def test_names_are_those_of_the_room_folders_below_included(garage) -> None:
    garage("parts/motors/old/steam.yml", "name: steam\ndelay: 60 s\n")
    assert catalog.names(Motor) == ["diesel", "electric", "old/steam"]
    assert catalog.names(Car) == ["small"]
    assert catalog.names(Seats) == []


@pytest.mark.parametrize(
    "reference",
    [
        "diesel",
        "motors/diesel",
        "parts/motors/diesel",
        "parts/motors/diesel.yaml",
        "./parts/motors/diesel",
        "diesel.yaml",
    ],
)
def test_a_reference_may_be_long_or_short(garage, tmp_path: Path, reference: str) -> None:
    assert catalog.find(reference, ROOMS) == tmp_path / "parts/motors/diesel.yaml"


def test_a_path_starts_at_the_referring_file(garage, tmp_path: Path) -> None:
    beside = garage("elsewhere/diesel.yaml", "name: other\ndelay: 0\n")
    assert catalog.find("./diesel", ROOMS, tmp_path / "elsewhere") == beside
    assert catalog.find("diesel.yaml", ROOMS, tmp_path / "elsewhere") == beside
    assert catalog.find("../elsewhere/diesel", ROOMS, tmp_path / "parts") == beside
    assert catalog.find("diesel", ROOMS, tmp_path / "elsewhere") == tmp_path / "parts/motors/diesel.yaml"


def test_the_working_folder_comes_before_the_installed_data(garage, tmp_path: Path) -> None:
    mine = garage("hardware_profiles/clusters/selene.yaml", "name: mine\n")
    rooms = ("hardware_profiles/clusters",)
    assert catalog.find("clusters/selene", rooms) == mine
    mine.unlink()
    assert catalog.find("clusters/selene", rooms) == catalog.data_root() / "hardware_profiles/clusters/selene.yaml"


@pytest.mark.parametrize("reference", ["nothing", "nothing.yaml", "x\0y", "n" * 5000, "", "a/" * 3000, "*", ".."])
def test_what_is_not_there_is_not_found(garage, reference: str) -> None:
    assert catalog.find(reference, ROOMS) is None
    assert catalog.unknown(reference, ROOMS).message.startswith("there is no motor `")


def test_an_unknown_name_comes_with_the_nearest(garage) -> None:
    assert str(catalog.unknown("motors/deisel", ROOMS)) == "there is no motor `motors/deisel`; did you mean `diesel`?"
    for number in range(20):
        garage(f"parts/motors/m{number}.yaml", "name: m\n")
    assert str(catalog.unknown("zzz", ROOMS)) == (
        "there is no motor `zzz`; write the path of a file, or a name in parts/motors/: `diesel`, `electric`, `m0`,"
        " `m1`, `m10`, `m11` and 16 more"
    )


def test_a_user_may_name_any_file(garage, tmp_path: Path) -> None:
    text = garage("notes.txt", "name: x\n")
    assert catalog.entrance(text, ROOMS) == text
    assert catalog.entrance("notes.txt", ROOMS) == Path("notes.txt")
    assert catalog.entrance("diesel", ROOMS) == tmp_path / "parts/motors/diesel.yaml"
    assert catalog.entrance("parts", ROOMS) == Path("parts")  # a directory: reading it will say so
    with pytest.raises(InputError, match=r"there is no motor `none\.yaml`"):
        catalog.entrance("none.yaml", ROOMS)


def test_files_are_shown_from_the_data_or_the_working_folder(garage, tmp_path: Path) -> None:
    assert catalog.shown(tmp_path / "cars/small.yaml") == "cars/small.yaml"
    assert catalog.shown(catalog.data_root() / "scenarios/x.yaml") == "scenarios/x.yaml"
    assert catalog.shown(Path("/elsewhere/x.yaml")) == "/elsewhere/x.yaml"
    assert catalog.shown(Path("cars/small.yaml")) == "cars/small.yaml"


def test_a_file_that_cannot_be_looked_at_is_left_to_the_reader(garage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", fail)
    assert catalog.find("diesel", ROOMS) is not None
