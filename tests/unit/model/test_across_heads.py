"""Norms of queries and keys over the heads of all devices."""

import pytest

from simulator.axes import TP
from simulator.model import layers
from simulator.model.cut import Cut
from simulator.model.ops import Comm
from simulator.specs import load_spec
from simulator.specs.model import Model


@pytest.mark.parametrize(
    ("name", "tp", "sums"), [("minimax-m2.5", 8, 1), ("minimax-m2.5", 1, 0), ("qwen3-235b-a22b", 8, 0)]
)
def test_devices_sum_the_squares_of_each_row(name: str, tp: int, sums: int) -> None:
    """Two squares of a row, of its queries and of its keys, in fp32: four elements of 16 bits, in one collective."""
    model = load_spec(Model, name)
    ops = list(layers.layer(model, Cut({TP.name: tp}), model.kinds[0]))
    found = [op.does for op in ops if op.name == "sum squares"]
    assert len(found) == sums
    for comm in found:
        assert isinstance(comm, Comm) and (comm.operation, comm.axis, comm.width) == ("all_reduce", TP, 4.0)
