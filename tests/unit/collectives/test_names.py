"""Names of collectives as other programs write them, and what may stand behind a colon."""

import pytest

from simulator.collectives import check_operation, operation_of, remark_on
from simulator.errors import InputError


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("alltoall", "all_to_all"),
        ("All-Reduce_perf", "all_reduce"),
        ("sendrecv_perf:1:-1", "shift:1:-1"),
        ("Reduce", "broadcast"),
        ("MOE_dispatch", "dispatch"),
        ("moe-combine", "combine"),
        ("moe_all_reduce", "moe_all_reduce"),
    ],
)
def test_names_of_other_programs(name: str, operation: str) -> None:
    assert operation_of(name) == operation


@pytest.mark.parametrize("name", ["sendrecv", "Send-Recv_perf:3", "reduce_perf"])
def test_what_is_no_mere_spelling_is_said(name: str) -> None:
    assert remark_on(name) and not remark_on(operation_of(name))


@pytest.mark.parametrize("operation", ["all_reduce", "shift", "shift:3", "shift:1:-1"])
def test_operations_and_ways_of_a_shift(operation: str) -> None:
    check_operation(operation)


@pytest.mark.parametrize("operation", ["all_reduce:x", "broadcast:1", "shift:", "shift:x", "shift:1:", "moe", ""])
def test_nothing_else_stands_behind_a_colon(operation: str) -> None:
    with pytest.raises(InputError):
        check_operation(operation)
