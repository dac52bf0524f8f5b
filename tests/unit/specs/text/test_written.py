"""Scenarios that are read once and changed many times, and the way back from a scenario to what one would write."""

from pathlib import Path

import pytest

import simulator.run  # noqa: F401  (readers of foreign files)
from simulator.errors import InputError
from simulator.specs import load_scenario
from simulator.specs.files.shape import below
from simulator.specs.resolve import read_template, restored
from simulator.specs.scenario import Scenario
from simulator.specs.text.written import dimension, template_of

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted(p for p in (ROOT / "scenarios").rglob("*.yaml") if "families" not in p.parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_scenario_survives_both_ways(path: Path) -> None:
    scenario = load_scenario(path).scenario
    spec, document = read_template(path).filled()
    assert spec == restored(document) == scenario
    assert template_of(scenario).filled()[0] == scenario


def test_changes_are_those_of_the_loader() -> None:
    overrides = ["training.parallel.tp=4", "cluster.node.accelerator.memory.bandwidth=4 TB/s"]
    changed = read_template("quickstart").changed(overrides).filled()[0]
    assert changed == load_scenario("quickstart", overrides).scenario
    rebuilt = template_of(load_scenario("quickstart").scenario).changed(overrides).filled()[0]
    assert rebuilt == changed


def test_a_template_that_is_changed_stays_as_it_was() -> None:
    template = read_template("quickstart")
    template.changed(["training.micro_batch=4"])
    assert template.filled()[0] == load_scenario("quickstart").scenario


def test_problems_are_those_of_the_loader() -> None:
    template = read_template("quickstart")
    with pytest.raises(InputError, match="did you mean `parallel`"):
        template.changed(["training.paralel.tp=2"])
    with pytest.raises(InputError, match="is not a whole number"):
        template.changed(["training.parallel.tp=x"]).filled()
    with pytest.raises(InputError, match="no-such"):
        read_template("no-such-scenario")
    with pytest.raises(InputError, match="none of this version"):
        restored({"training": {}})


def test_dimensions_of_keys() -> None:
    kind: object = Scenario
    for part in ("cluster", "node", "accelerator", "memory", "bandwidth"):
        kind = below(kind, part)
    assert dimension(kind) == "bandwidth"
    assert dimension(below(Scenario, "seed")) is None
