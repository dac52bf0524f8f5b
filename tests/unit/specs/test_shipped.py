"""Every scenario that is shipped loads from an empty folder, by its name."""

import os

import pytest

from simulator.errors import InputError
from simulator.specs import load_scenario, names
from simulator.specs.scenario import Scenario


@pytest.mark.parametrize("name", names(Scenario))
def test_a_shipped_scenario_loads(write, name: str) -> None:
    if "families/" in name:  # what other scenarios extend, and complete
        with pytest.raises(InputError) as caught:
            load_scenario(name)
        assert all(problem.message.endswith("is missing") for problem in caught.value.problems)
        return
    loaded = load_scenario(name)
    assert loaded.sources[0] == os.path.join("scenarios", f"{name}.yaml")
    assert load_scenario(f"scenarios/{name}.yaml").scenario == loaded.scenario
