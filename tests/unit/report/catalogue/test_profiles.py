import re
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.report.catalogue import profiles as catalogue
from simulator.report.catalogue.profiles import ROOMS, profiles
from simulator.specs import names
from simulator.specs.training import Stack


def show(name: str | None) -> str:
    return profiles(name, width=100, colour=False)


@pytest.mark.parametrize("kind", ROOMS)
def test_list_of_a_kind_has_every_profile_and_fits(kind: str) -> None:
    text = show(kind)
    assert all(name in text for name in ROOMS[kind].names())
    assert max(map(len, text.splitlines())) <= 100
    assert "cannot be read" not in text


def test_list_of_all_kinds() -> None:
    text = show(None)
    assert all(f"\n {kind}\n" in text for kind in ROOMS)
    assert re.search(r"NVIDIA H100 SXM5 +2023 +989 TFLOP/s bf16 .* measured\n +80GB\n", text)


def test_stacks_for_training_and_for_serving_are_listed_apart() -> None:
    text = show("stacks")
    training, serving = text.split("serving stacks")
    assert "training stacks" in training
    assert "megatron-core" in training and "megatron-core" not in serving
    assert "vllm-v0" in serving and "vllm-v0" not in training
    assert set(ROOMS["training stacks"].names()) | set(ROOMS["serving stacks"].names()) == set(names(Stack))
    assert show("serving stacks").strip() == f"serving stacks{serving}".strip()
    assert "policy: vllm-v1" in show("vllm")
    assert "policy: static" in show("stacks/fastertransformer")


def test_a_broken_serving_stack_is_listed_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hardware_profiles" / "stacks").mkdir(parents=True)
    (tmp_path / "hardware_profiles" / "stacks" / "mine.yaml").write_text("extends: vllm\npolicy: [x]\n")
    monkeypatch.chdir(tmp_path)
    training, serving = show("stacks").split("serving stacks")
    assert "mine" not in training
    assert "cannot be read" in serving


def test_mixtures_of_experts_say_how_many_a_token_visits() -> None:
    assert re.search(r"qwen3-30b-a3b .* 8/128 x 768", show("models"))


@pytest.mark.parametrize("name", ["h100-sxm", "accelerators/h100-sxm", "hardware_profiles/accelerators/h100-sxm.yaml"])
def test_one_in_full_with_sources(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[4])
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
    assert "cannot be read" in " ".join(text.split())
    assert "gpt-1t" in text


def test_one_profile_reads_no_stack_of_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """All stacks were read for the page of a device, and again for a name that no profile has."""
    asked: list[str] = []

    def serves(name: str) -> bool:
        asked.append(name)
        return name == "vllm"

    monkeypatch.setattr(catalogue, "_serves", serves)
    assert "policy: vllm-v1" in show("stacks/vllm")
    assert "memory" in show("accelerators/h100-sxm")
    with pytest.raises(InputError, match="no profile `nowhere`"):
        show("nowhere")
    assert set(asked) == {"vllm"}
