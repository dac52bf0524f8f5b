"""The kinds of scenario: each is told from a scenario, its fields and its Result, and says what studies need."""

import pytest

from simulator.errors import InputError
from simulator.results.metrics import METRICS
from simulator.run.dispatch import simulate
from simulator.run.kinds import KINDS, ScenarioKind, kind_of, kind_of_fields
from simulator.specs import dump, load_scenario
from simulator.specs.resolve import load_run
from simulator.specs.scenario import AnyRun

SHORT = (
    "iterations=1",
    "stages.0.model=models/llama-3.2-1b",
    "stages.0.requests.count=8",
    "stages.1.model=models/llama-3.2-1b",
    "stages.1.training.global_batch=16",
)
SMALL: dict[str, AnyRun] = {
    "training": load_scenario("quickstart", ["training.global_batch=16"]).scenario,
    "serving": load_scenario("serving/quickstart", ["requests.count=40"]).scenario,
    "jobs": load_scenario("jobs/two-jobs-one-spine", ["jobs.0.training.steps=1"]).scenario,
    "workflow": load_run("distillation", SHORT).spec,
}


def test_every_kind_has_an_example_here() -> None:
    assert list(SMALL) == list(KINDS)


@pytest.mark.parametrize("scenario", SMALL.values(), ids=SMALL)
def test_a_kind_is_told_from_the_scenario_its_fields_and_its_result(scenario: AnyRun) -> None:
    kind = kind_of(scenario)
    assert kind_of_fields(dump(scenario)) is kind
    assert KINDS[simulate(scenario).kind] is kind


@pytest.mark.parametrize("scenario", SMALL.values(), ids=SMALL)
def test_its_figures_are_those_of_its_results(scenario: AnyRun) -> None:
    kind, result = kind_of(scenario), simulate(scenario)
    for name in (kind.whole, kind.speed, kind.best, kind.headline[0]):
        assert name in METRICS
        assert name in result.metrics
    whole = result.metrics[kind.whole] * METRICS[kind.whole].scale
    assert sum(kind.parts(result).values()) == pytest.approx(whole, rel=1e-9)
    assert 0 < kind.devices(result) <= scenario.cluster.devices


@pytest.mark.parametrize("scenario", SMALL.values(), ids=SMALL)
def test_one_of_many_points_has_the_figures_of_one_alone(scenario: AnyRun) -> None:
    assert kind_of(scenario).evaluate(scenario).metrics == pytest.approx(dict(simulate(scenario).metrics), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_options_of_other_kinds_are_refused(kind: ScenarioKind) -> None:
    values: dict[str, object] = {"fold": "exact", "executor": "simpy", "leap": False}
    for option in set(values) - set(kind.options):
        with pytest.raises(InputError, match=f"`{option}` has no meaning for a scenario that {kind.does}"):
            simulate(SMALL[kind.name], **{option: values[option]})  # type: ignore[arg-type]


def test_what_a_kind_writes_and_whose_jobs_it_has() -> None:
    assert [name for name, kind in KINDS.items() if kind.requests] == ["serving"]
    assert [name for name, kind in KINDS.items() if kind.better] == ["training"]
    assert {name: list(kind.jobs(SMALL[name])) for name, kind in KINDS.items()} == {
        "training": [],
        "serving": [],
        "jobs": ["first", "second"],
        "workflow": [],
    }
