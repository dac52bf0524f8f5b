from pathlib import Path

import pytest

from simulator.report.catalogue.explain import explain
from simulator.specs import load_file, load_scenario, names
from simulator.specs.base import Spec
from simulator.specs.hardware import Accelerator, Cluster
from simulator.specs.model import Model
from simulator.specs.serving import ServingStack
from simulator.specs.training import Stack

ROOT = Path(__file__).resolve().parents[4]
SCENARIO = ROOT / "scenarios" / "quickstart.yaml"


def test_what_is_shown_can_be_loaded_and_means_the_same(tmp_path: Path) -> None:
    loaded = load_scenario(SCENARIO, ["training.micro_batch=2"])
    copy = tmp_path / "copy.yaml"
    copy.write_text(explain(loaded.scenario, loaded.origins), encoding="utf-8")
    assert load_scenario(copy).scenario == loaded.scenario


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in (Accelerator, Cluster, Model) for name in names(kind)[::6]]
    + [(Stack, "fsdp"), (Stack, "megatron-core"), (ServingStack, "vllm"), (ServingStack, "tensorrt-llm")],
)
def test_profiles_survive(kind: type[Spec], name: str, tmp_path: Path) -> None:
    loaded = load_file(kind, name)
    copy = tmp_path / "copy.yaml"
    copy.write_text(explain(loaded.spec, loaded.origins), encoding="utf-8")
    assert load_file(kind, copy).spec == loaded.spec


def line(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if line.strip().startswith(start))


def test_every_value_says_where_it_comes_from() -> None:
    loaded = load_scenario(SCENARIO, ["training.micro_batch=2"])
    text = explain(loaded.scenario, loaded.origins)
    assert line(text, "micro_batch: 2").endswith("# override `training.micro_batch=2`")
    assert "quickstart.yaml:" in line(text, "global_batch:")
    assert line(text, "seed: 0").endswith("# default")
    assert "h100-sxm.yaml:" in line(text, "fp8: {value: 1979 TFLOP/s, status: datasheet,")
    values = [
        entry
        for entry in text.splitlines()
        if not entry.rstrip().endswith(":") and not entry.strip().startswith("source:")
    ]
    assert all("  # " in entry for entry in values)


def test_origins_stand_in_one_column() -> None:
    loaded = load_file(Accelerator, "h100-sxm")
    text = explain(loaded.spec, loaded.origins)
    assert len({entry.index("# ") for entry in text.splitlines() if "# hardware" in entry}) == 1


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "null",
        "1e5",
        "a: b",
        "a #b",
        "- x",
        "",
        " x",
        "line\nbreak",
        'q"uote',
        "é\u2028\x7f😀",
        ".5",
        "0x1f",
        "~",
        "[",
        "x,y",
    ],
)
def test_any_text_is_quoted_as_it_must(text: str, tmp_path: Path) -> None:
    model = Model(name=text, layers=1, hidden=8, heads=1, vocabulary=8, source=text)
    copy = tmp_path / "copy.yaml"
    copy.write_text(explain(model, {"name": "evil\x1b[0m"}), encoding="utf-8")
    assert load_file(Model, copy).spec == model
    assert "\x1b" not in copy.read_text(encoding="utf-8")


def test_colours_touch_only_the_comments() -> None:
    loaded = load_file(Model, "gpt-1t")
    coloured = explain(loaded.spec, loaded.origins, colour=True)
    assert coloured.replace("\x1b[2m", "").replace("\x1b[0m", "") == explain(loaded.spec, loaded.origins)


def test_quantities_that_may_be_left_open_have_their_unit() -> None:
    loaded = load_scenario(Path(__file__).resolve().parents[4] / "scenarios" / "serving" / "quickstart.yaml")
    assert "    poisson: 4 /s" in explain(loaded.scenario, {}).splitlines()
