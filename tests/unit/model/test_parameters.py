"""Parameters of whole models, against what their authors state and against a second count."""

from decimal import Decimal
from math import floor, log10

import pytest

from simulator.model.parameters import active_parameters, total_parameters
from simulator.specs import load_spec, names
from simulator.specs.model import Model
from tests import jobs
from tests.parameters import parameters

STATED = [name for name in names(Model) if load_spec(Model, name).published_parameters]
NOTED = 0.08
"""Share by which a model may differ whose file says what its authors count otherwise."""
ROUND = 0.03
"""The most by which zeros at the end of a figure are taken for rounding."""


def rounding(figure: float) -> float:
    """Half a unit of the last digit that is given; zeros at the end may be rounding too."""
    exponent = Decimal(str(figure)).normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    unit = 0.5 * 10.0**exponent
    return min(unit, max(0.5, ROUND * figure)) if exponent > 0 else unit


def test_figures_are_held_to_their_last_digit() -> None:
    assert [rounding(figure) for figure in (671.0, 15.7, 230.0, 1000.0)] == pytest.approx([0.5, 0.05, 5.0, 30.0])
    assert floor(log10(rounding(400.0))) == 1


@pytest.mark.parametrize("name", STATED)
def test_a_model_has_the_parameters_that_its_authors_state(name: str) -> None:
    """Active ones with or without the input embedding, which cards count either way."""
    model = load_spec(Model, name)
    stated = model.published_parameters
    assert stated is not None and stated.source
    noted = NOTED if stated.note else 0.0
    total, active = total_parameters(model) / 1e9, active_parameters(model) / 1e9
    assert abs(total - stated.total_billions) <= max(rounding(stated.total_billions), noted * total)
    if stated.active_billions is not None:
        embedding = model.vocabulary * model.hidden / 1e9
        off = min(abs(active + more - stated.active_billions) for more in (0.0, embedding))
        assert off <= max(rounding(stated.active_billions), noted * active)


@pytest.mark.parametrize("name", ["llama-3.1-8b", "gpt3-175b", "mixtral-8x7b", "qwen2-57b-a14b", "gemma-2-9b"])
def test_the_total_is_that_of_a_count_from_the_shape(name: str) -> None:
    model = load_spec(Model, name)
    assert total_parameters(model) == pytest.approx(parameters(model), rel=1e-9)


def test_active_ones_are_those_that_multiply_a_token() -> None:
    sparse = jobs.model(hidden=8, heads=4, ffn=16, experts=4, top_k=1, expert_ffn=6, biases=False, norm="rmsnorm")
    dense = jobs.model(hidden=8, heads=4, ffn=6, biases=False, norm="rmsnorm")
    router = 8 * 8 * 4
    assert active_parameters(sparse) == active_parameters(dense) + router
    ends = 51200 * 8 + 1024 * 8  # the head is the embedding; positions
    assert total_parameters(dense) == active_parameters(dense) + ends - 51200 * 8


def test_experts_may_work_at_a_width_of_their_own() -> None:
    """Two matrices of hidden x width, and experts of that width; the router and the shared expert read the stream."""
    usual, narrow = (
        jobs.model(hidden=8, heads=4, layers=1, experts=4, top_k=2, expert_ffn=6, shared_ffn=10, biases=False, **more)
        for more in ({}, {"expert_hidden": 2})
    )
    assert total_parameters(usual) - total_parameters(narrow) == 4 * 2 * 6 * (8 - 2) - 2 * 8 * 2
