"""What a stack's numbers are likely to be, from other stacks."""

import pytest

from simulator.calibration.stacks.prior import prior
from simulator.specs.resolve import load_spec
from simulator.specs.training import Stack

BOTH = ("compute_efficiency", "layer_overhead")


def test_it_is_what_other_stacks_have_and_not_ones_own() -> None:
    found, own = prior("megatron-deepspeed", BOTH), load_spec(Stack, "megatron-deepspeed").layer_overhead.value
    assert 0.7 < found.middle[0] < 0.9 and 5e-4 < found.middle[1] < 1.5e-3
    assert found.middle[1] != own == prior("fsdp", ("layer_overhead",)).middle[0]  # the only one that is measured


def test_what_was_fitted_on_an_unseen_source_tells_nothing() -> None:
    seen, unseen = (prior("fsdp", ("layer_overhead",), source).middle for source in (None, "vtrain-single"))
    assert seen != unseen > (5e-4,)


def test_a_number_by_definition_is_known_and_costs_nothing() -> None:
    found = prior("maxtext", BOTH)
    assert (found.middle[1], found.spread[1]) == (0.0, 0.0)
    assert found.cost(found.middle) == 0.0


def test_the_cost_is_half_the_square_of_the_distance_in_errors_of_rows() -> None:
    found = prior("fsdp", ("layer_overhead",))
    twice = found.cost((2 * found.middle[0],))
    assert twice == pytest.approx(found.cost((found.middle[0] / 2,)))
    assert found.cost((4 * found.middle[0],)) == pytest.approx(4 * twice)
    assert found.cost((0.0,)) > found.cost((1e-4,))
