"""Layers that prompts do not pass: how stages share them, what they cost and what their caches take."""

import pytest

from simulator.errors import InputError
from simulator.serving.costs.depth import Depth, depths
from simulator.serving.costs.iteration import ReplicaCost
from simulator.serving.fleet.system import resolve
from simulator.specs import load_scenario
from simulator.specs.model import Model
from simulator.specs.scenario import ServingScenario

SCENARIO = "serving/quickstart"


def model(**more: object) -> Model:
    return Model.model_validate({"name": "m", "layers": 8, "hidden": 64, "heads": 4, "vocabulary": 100, **more})


def price(*changes: str) -> ReplicaCost:
    """A replica of the 32 layers of Llama-2-7B."""
    spec = load_scenario(SCENARIO, changes).spec
    assert isinstance(spec, ServingScenario)
    return resolve(spec)[0].cost


def test_all_layers_are_full_where_nothing_is_skipped() -> None:
    assert depths(model(), (4, 4)) == (Depth(4, 0, 0), Depth(4, 0, 0))


def test_stages_have_the_layers_before_and_after_the_cut() -> None:
    assert depths(model(prompt_layers=5), (3, 3, 2)) == (Depth(3, 0, 0), Depth(2, 1, 1), Depth(0, 2, 2))
    assert depths(model(prompt_layers=2, cache_group=4), (8,)) == (Depth(2, 6, 2),)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_a_cache_is_kept_by_every_early_layer_and_every_group_of_late_ones(group: int) -> None:
    whole, part = price(), price("+model.prompt_layers=16", f"+model.cache_group={group}")
    assert part.kv_token_bytes == pytest.approx(whole.kv_token_bytes * (0.5 + 0.5 / group))


def test_prompts_cost_about_half_and_decodes_the_same() -> None:
    (whole,), (part,) = price().stages, price("+model.prompt_layers=16").stages
    assert part.rows(4096, 0) / whole.rows(4096, 0) == pytest.approx(0.58, abs=0.03)  # half, and keys and values
    assert part.prompt(4096, 0) == pytest.approx(whole.prompt(4096, 0) / 2, rel=1e-6)
    assert part.rows(64, 64) == pytest.approx(whole.rows(64, 64), rel=0.05)
    assert part.decode(64) == whole.decode(64)


def test_skipping_no_layer_changes_nothing() -> None:
    (whole,), (same,) = price().stages, price("+model.prompt_layers=32").stages
    assert same.rows(777, 5) == whole.rows(777, 5)
    assert same.prompt(777, 5) == whole.prompt(777, 5)


@pytest.mark.parametrize(
    ("key", "message"), [({"prompt_layers": 9}, "more than the 8 layers"), ({"cache_group": 2}, "write both")]
)
def test_what_makes_no_sense_is_refused(key: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model(**key)


def test_such_a_model_is_not_trained() -> None:
    from simulator.run.simulate import simulate

    with pytest.raises(InputError, match="can be served, not trained"):
        simulate(load_scenario("quickstart", ["+model.prompt_layers=2"]).spec)  # type: ignore[arg-type]
