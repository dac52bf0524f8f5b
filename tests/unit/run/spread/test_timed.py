"""Intervals of published collectives, exchanges with experts and kernels, from rows of other sources."""

import pytest

from simulator.interop.rows.jsonl import read_lines
from simulator.run.spread.near import apart
from simulator.run.spread.residuals import shipped
from simulator.run.spread.timed import TIME, band, like_timed, spread_of_time
from simulator.specs import data_root
from simulator.study.validate.published import KINDS

OWN = like_timed("network", "h100-sxm-80gb", "NCCL 2.2x", "all_reduce", "large", 16, 2)


def test_sizes_are_of_three_bands() -> None:
    assert [band(size) for size in (8.0, 1e6, 1e9, None)] == ["small", "middle", "large", "large"]


@pytest.mark.parametrize(
    "other",
    [
        ("h200-sxm", "NCCL 2.2x", "all_reduce", "large", 16, 2),
        ("h100-sxm-80gb", "RCCL", "all_reduce", "large", 16, 2),
        ("h100-sxm-80gb", "NCCL 2.2x", "all_gather", "large", 16, 2),
        ("h100-sxm-80gb", "NCCL 2.2x", "all_reduce", "small", 16, 2),
        ("h100-sxm-80gb", "NCCL 2.2x", "all_reduce", "large", 16, 1),
    ],
)
def test_another_device_library_operation_size_or_number_of_nodes_is_farther(
    other: tuple[str, str, str, str, int, int],
) -> None:
    assert apart(OWN, OWN) == 0 < apart(OWN, like_timed("network", *other))


def test_another_generation_of_a_library_is_nearer_than_another_library() -> None:
    newer, foreign = (
        like_timed("network", "h100-sxm-80gb", name, "all_reduce", "large", 16, 2) for name in ("NCCL 3", "RCCL")
    )
    assert apart(OWN, newer) < apart(OWN, foreign)


@pytest.mark.parametrize("kind", ["network", "exchange", "kernel"])
def test_intervals_of_left_out_sources_hold_what_they_say(kind: str) -> None:
    by = shipped()[kind, TIME].widening
    assert by is not None
    assert by.coverage == pytest.approx(0.8, abs=0.03)


def test_the_own_source_of_a_row_has_no_part_in_its_interval() -> None:
    known = shipped()["network", TIME]
    group = max(known.rows, key=lambda row: len(row.residuals))
    with_it, without = known.spread(group.like), spread_of_time(group.like, group.source)
    assert with_it is not None and without is not None
    assert (with_it.low, with_it.high) != (without.low, without.high)
    assert without.sources == with_it.sources - 1


@pytest.mark.parametrize(
    ("kind", "file"), [("network", "network.jsonl"), ("exchanges", "exchanges.jsonl"), ("kernel", "kernels.jsonl")]
)
def test_every_row_that_is_priced_has_an_interval(kind: str, file: str) -> None:
    lines = list(read_lines(data_root() / "workloads" / "measurements" / file))
    priced = KINDS[kind].validate(lines, 1)
    done = [one for one in priced if one.error is not None]
    held = [one.interval[0] <= one.measured <= one.interval[1] for one in done]
    assert len(done) > 10
    assert 0.75 < sum(held) / len(held) < 0.88
    assert all(one.interval[0] < one.interval[1] for one in done)
    assert all(one.interval is None for one in priced if one.error is None)
