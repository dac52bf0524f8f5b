"""When activities end: at the nearest tick, wherever counting begins."""

import pytest

from simulator.engine.running import nearest


@pytest.mark.parametrize("ticks", [7.5, 8.5, 9.5, 10.5, 10.4, 10.6])
def test_a_tie_goes_to_the_same_tick_however_the_time_is_cut(ticks: float) -> None:
    """Rounding halves to even numbers gave another end where somebody else's event came in between."""
    assert {start + nearest(ticks - start) for start in range(8)} == {nearest(ticks)}


def test_halves_go_to_the_later_tick() -> None:
    assert [nearest(ticks) for ticks in (0.5, 1.5, 2.5, 2.49)] == [1, 2, 3, 2]
