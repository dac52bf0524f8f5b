"""The max-min solver on cases small enough to check by hand."""

import pytest

from tests.columns import max_min


def test_alone_everything_runs_at_full_speed() -> None:
    assert max_min([0, 0], [0, 1], [10.0, 5.0], [1, 1], [10.0, 5.0]) == [1.0]


def test_two_equal_activities_halve_a_resource() -> None:
    assert max_min([0, 1], [0, 0], [10.0, 10.0], [1, 1], [10.0]) == [0.5, 0.5]


def test_shares_follow_flows_not_demands() -> None:
    assert max_min([0, 1], [0, 0], [10.0, 10.0], [3, 1], [10.0]) == pytest.approx([0.75, 0.25])
    assert max_min([0, 1], [0, 0], [20.0, 10.0], [1, 1], [10.0]) == pytest.approx([0.25, 0.5])


def test_a_demand_below_its_share_is_granted_in_full() -> None:
    assert max_min([0, 1, 2], [0, 0, 0], [1.0, 10.0, 10.0], [1, 1, 1], [10.0]) == pytest.approx([1.0, 0.45, 0.45])


def test_what_a_bottleneck_elsewhere_leaves_goes_to_others() -> None:
    # Activity 0 is held to 2 by resource 1, so activity 1 gets 8 of resource 0 and not 5.
    assert max_min([0, 0, 1], [0, 1, 0], [10.0, 10.0, 10.0], [1, 1, 1], [10.0, 2.0]) == pytest.approx([0.2, 0.8])


def test_a_line_of_two_links_shares_as_in_the_textbook() -> None:
    # One long flow over both links and one short flow on each: all get half (Bertsekas and Gallager 6.5.2).
    assert max_min([0, 0, 1, 2], [0, 1, 0, 1], [1.0] * 4, [1] * 4, [1.0, 1.0]) == pytest.approx([0.5, 0.5, 0.5])


def test_crossed_weights_still_fill_both_resources() -> None:
    # Each activity is the weak one where the other is strong: neither bottleneck is full at first.
    speeds = max_min([0, 0, 1, 1], [0, 1, 0, 1], [1.0] * 4, [1, 2, 2, 1], [1.0, 1.0])
    assert speeds == pytest.approx([0.5, 0.5])


def test_rows_of_one_pair_add_up_and_rows_without_a_rate_count_nothing() -> None:
    split = max_min([0, 0, 1, 1], [0, 0, 0, 0], [4.0, 6.0, 10.0, 0.0], [1, 1, 2, 9], [10.0])
    assert split == max_min([0, 1], [0, 0], [10.0, 10.0], [2, 2], [10.0])


def test_a_resource_without_capacity_stops_its_users() -> None:
    assert max_min([0, 1], [0, 1], [1.0, 1.0], [1, 1], [0.0, 1.0]) == [0.0, 1.0]


def test_rounding_is_not_contention() -> None:
    assert max_min([0, 1, 2], [0, 0, 0], [0.1, 0.2, 0.3], [1, 1, 1], [0.6 * (1 - 1e-12)]) == [1.0, 1.0, 1.0]


def test_nothing_asked_nothing_given() -> None:
    assert max_min([], [], [], [], []) == []
