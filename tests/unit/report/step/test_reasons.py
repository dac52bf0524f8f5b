"""What the critical path is made of, as tables that add up."""

import pytest

from simulator.report.step.reasons import tables
from simulator.results.result import CriticalPath


def path(operations: dict[str, float]) -> CriticalPath:
    whole = sum(operations.values())
    return CriticalPath(seconds={"compute": whole}, by_operation=operations)


@pytest.mark.parametrize("small", [0.0, 0.0001, 0.004])
def test_rows_add_up_to_the_step_however_small_some_are(small: float) -> None:
    operations = {"backward": 0.6, "forward": 0.4} | {f"send {i}": small for i in range(50) if small}
    (table,) = tables(path(operations), most=4)
    assert sum(seconds for _, seconds in table.rows) == pytest.approx(sum(operations.values()))
    named = [name for name, _ in table.rows]
    assert named[:2] == ["backward", "forward"]
    assert named[2:] == {0.0: [], 0.0001: ["50 others"], 0.004: ["send 0", "49 others"]}[small]
