"""Conditions of a sweep: what their keys name, and how quantities are read."""

import pytest

from simulator.errors import InputError
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario
from simulator.study.sweep.conditions import Condition, axis_named, parse_conditions, value_at

SCENARIO = load_scenario("serving/quickstart").scenario
MEMORY = "cluster.node.accelerator.memory.capacity"


def parsed(text: str, *axes: str) -> Condition:
    (found,) = parse_conditions([text], axes, ServingScenario)
    return found


def test_a_figure_of_the_scenario_is_held_against_a_quantity() -> None:
    capacity = value_at(SCENARIO, MEMORY)
    assert isinstance(capacity, float) and capacity > 1e9
    for sign, met in (("<", False), ("<=", True), ("==", True), (">=", True), (">", False), ("!=", False)):
        condition = parsed(f"{MEMORY} {sign} {capacity:.0f} B")
        assert (condition.of, condition.wanted) == ("scenario", capacity)
        assert condition.holds(capacity) == met
    assert parsed(f"{MEMORY} < 2 TB").wanted == 2e12


@pytest.mark.parametrize("text", ["name == 'a b'", 'name == "a b"', "name == a b"])
def test_text_with_or_without_quotes(text: str) -> None:
    assert parsed(text).wanted == "a b"
    assert parsed(text).holds("a b") and not parsed(text).holds("'a b'")


def test_a_metric_is_in_its_own_unit_or_in_the_one_that_is_written() -> None:
    assert parsed("mean_ttft_ms < 200").wanted == parsed("mean_ttft_ms < 0.2 s").wanted == 200.0
    assert parsed("peak_memory_bytes < 1e6").wanted == parsed("peak_memory_bytes < 1 MB").wanted == 1e6
    with pytest.raises(InputError):
        parsed("peak_memory_bytes < 999999")
    assert not parsed("mean_ttft_ms < 200").holds(None)


def test_an_axis_by_its_last_words_where_only_one_has_them() -> None:
    axes = ["serving.parallel.tp", "serving.parallel.pp", "serving.replicas"]
    assert axis_named("parallel.tp", axes) == axis_named("tp", axes) == axes[0]
    assert axis_named("tp", [*axes, "other.tp"]) is None
    condition = parsed("tp <= 4", *axes)
    assert (condition.of, condition.key, condition.wanted) == ("axis", axes[0], 4)


def test_what_cannot_be_compared_is_refused() -> None:
    for text, found in (("name < 3", 2), ("serving.replicas < 3", "two"), ("serving.replicas == 1", True)):
        with pytest.raises(InputError, match=r"here|compare|unit|number"):
            parsed(text).holds(found if text[0] != "n" else "x")


def test_places_of_lists_and_of_nothing() -> None:
    assert value_at(SCENARIO, "serving.pools.0.name") is None
    assert value_at(SCENARIO, "no.such.key") is None
