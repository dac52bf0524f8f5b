import re
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.report.profiles import ROOMS, profiles
from simulator.specs import names


def show(name: str | None) -> str:
    return profiles(name, width=100, colour=False)


@pytest.mark.parametrize("kind", ROOMS)
def test_list_of_a_kind_has_every_profile_and_fits(kind: str) -> None:
    text = show(kind)
    assert all(name in text for name in names(ROOMS[kind].kind))
    assert max(map(len, text.splitlines())) <= 100
    assert "cannot be read" not in text


def test_list_of_all_kinds() -> None:
    text = show(None)
    assert all(f"\n {kind}\n" in text for kind in ROOMS)
    assert re.search(r"NVIDIA H100 SXM5 80GB +2023 +989 TFLOP/s bf16", text)


@pytest.mark.parametrize("name", ["h100-sxm", "accelerators/h100-sxm", "hardware_profiles/accelerators/h100-sxm.yaml"])
def test_one_in_full_with_sources(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[3])
    text = show(name)
    assert "fp8: {value: 1979 TFLOP/s, status: datasheet," in text
    assert text.count("source:") >= 10


def test_a_name_of_two_kinds_shows_both() -> None:
    text = show("dgx-h100")
    assert "# nodes/dgx-h100" in text
    assert "# clusters/dgx-h100" in text


def test_a_file_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text("name: tiny\nlayers: 2\nhidden: 8\nheads: 2\nvocabulary: 16\n")
    assert "heads: 2" in show(str(path))
    path.write_text("name: tiny\nlayers: 2\nhidden: 8\nheads: two\nvocabulary: 16\n")
    with pytest.raises(InputError, match="heads"):
        show(str(path))


def test_unknown_name() -> None:
    with pytest.raises(InputError, match="there is no profile `h100-smx`; did you mean `h100-sxm`"):
        show("h100-smx")


def test_a_broken_profile_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workloads" / "models").mkdir(parents=True)
    (tmp_path / "workloads" / "models" / "broken.yaml").write_text("layers: [\n")
    monkeypatch.chdir(tmp_path)
    text = show("models")
    assert "broken" in text
    assert "cannot be read" in text
    assert "gpt-1t" in text
