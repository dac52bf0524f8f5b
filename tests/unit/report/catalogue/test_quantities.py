import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import units
from simulator.report.catalogue.quantities import EXAMPLES, dimension_of, exact
from simulator.specs.base import Bytes, Figure
from simulator.specs.hardware import Nics

DIMENSIONS = sorted(set(units.DIMENSIONS) - {"fraction", "count"})


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (80e9, "bytes", "80 GB"),
        (85520809984.0, "bytes", "81559 MiB"),
        (25e9, "bandwidth", "25 GB/s"),
        (3.35e12, "bandwidth", "3.35 TB/s"),
        (6.88 / 3600, "money_rate", "6.88 USD/h"),
        (989e12, "flop_rate", "989 TFLOP/s"),
        (6e-7, "time", "600 ns"),
        (0.0, "power", "0"),
        (10200.0, "power", "10.2 kW"),
        (1 / 3, "time", "333.3333333333333 ms"),
        (1e-30, "bytes", "1e-30 B"),
    ],
)
def test_as_people_write_them(value: float, dimension: str, text: str) -> None:
    assert exact(value, dimension) == text


@pytest.mark.parametrize("dimension", DIMENSIONS)
@given(value=st.floats(min_value=0, max_value=1e30, allow_subnormal=False))
def test_reading_gives_the_same_number(dimension: str, value: float) -> None:
    assert units.parse(exact(value, dimension), dimension) == value


@pytest.mark.parametrize("dimension", DIMENSIONS)
def test_examples_are_quantities(dimension: str) -> None:
    assert units.parse(EXAMPLES[dimension], dimension) > 0


def test_dimension_of_a_field() -> None:
    assert dimension_of(Figure[Bytes].model_fields["value"].metadata) == "bytes"
    assert dimension_of(Nics.model_fields["count"].metadata) is None
