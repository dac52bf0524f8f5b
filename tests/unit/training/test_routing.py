"""How evenly a router spreads rows over experts and devices."""

import pytest

from simulator.errors import InputError
from simulator.model.cut import Routing
from simulator.specs.training import RouterLoad
from simulator.training.routing import routing
from tests import jobs

SHAPE = jobs.model(experts=8, top_k=2)


def spread(devices: int = 4, rows: float = 4096, **load: object) -> Routing:
    return routing(RouterLoad.model_validate(load), SHAPE, devices, rows, seed=1)[0]


def test_an_even_load_keeps_everybody_as_busy() -> None:
    assert spread() == pytest.approx((1, 1))
    assert routing(RouterLoad(), SHAPE, 4, 4096, 1)[1] == ()


def test_the_busiest_device_holds_the_heaviest_experts() -> None:
    counts = [4, 2, 1, 1, 0, 0, 0, 0]
    assert spread(load="counts", counts=counts) == pytest.approx((1, 4 * 6 / 8))
    assert spread(load="counts", counts=counts, placement="packed") == pytest.approx((1, 4 * 4 / 8))
    assert spread(devices=1, load="counts", counts=counts) == pytest.approx((1, 1))


def test_zipf_falls_with_its_exponent() -> None:
    assert spread(load="zipf", exponent=0) == pytest.approx((1, 1))
    loads = [spread(load="zipf", exponent=exponent).busiest for exponent in (0.5, 1.0, 2.0)]
    assert loads == sorted(loads)
    assert spread(load="zipf").busiest == pytest.approx(4 * (1 + 1 / 2) / sum(1 / n for n in range(1, 9)))


def test_free_choices_are_nearly_even_for_many_rows() -> None:
    few, many = (spread(load="random", rows=rows).busiest for rows in (32, 1_000_000))
    assert 1 < many < 1.01 < few
    assert spread(load="random", rows=32).busiest == few


def test_capacity_drops_what_finds_no_room_or_fills_up() -> None:
    counts = [4, 2, 1, 1, 0, 0, 0, 0]
    dropped = spread(load="counts", counts=counts, capacity=1.0)
    assert dropped == pytest.approx((1 / 8 + 1 / 8 + 1 / 8 + 1 / 8, 4 * 2 / 8))
    assert spread(load="counts", counts=counts, capacity=1.25, padded=True) == pytest.approx((1.25, 1.25))


@pytest.mark.parametrize(
    ("load", "path", "words"),
    [
        ({"load": "counts", "counts": [1, 2]}, "training.routing.counts", "2 numbers for the 8 experts"),
        ({"load": "counts", "counts": [0] * 8}, "training.routing.counts", "for the 8 experts"),
        ({"capacity": 0.1}, "training.routing.capacity", "less than one"),
    ],
)
def test_loads_that_do_not_fit(load: dict[str, object], path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        spread(rows=8, **load)
    assert caught.value.problems[0].path == path
