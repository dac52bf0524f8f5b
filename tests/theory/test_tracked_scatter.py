"""Products whose tiles trigger their reduce-scatter: speed-ups of sub-layers as T3 reports them (arXiv:2401.16677)."""

from collections.abc import Iterator
from math import prod

import pytest

from simulator.serving.costs.lanes import makespan, sent_in_steps

RATE = 0.8 * 80 * 1.4e9 * 1024
"""FLOP/s of products on the authors' device of 80 cores at 1.4 GHz; 1,024 a cycle, of which 0.8, are assumed."""
LINK = 150e9
"""Bytes/s of its ring."""
TOKENS = 16384
"""Rows of a product, which are assumed."""


def sublayers() -> Iterator[tuple[float, float, int]]:
    """(seconds of the product, of its reduce-scatter, devices) of attention's output and of the second matrix of the
    MLP, forward: Mega-GPT-2 (3,072) and T-NLG (4,256) over 8 and 16 devices."""
    for hidden in (3072, 4256):
        for devices in (8, 16):
            scatter = TOKENS * hidden * 2 * (devices - 1) / devices / LINK
            for inner in (hidden, 4 * hidden):
                yield 2.0 * TOKENS * hidden * inner / devices / RATE, scatter, devices


def test_speedups_of_sublayers_are_of_the_published_size() -> None:
    """Published are 30 % on average and 47 % at most, over a product, its scatter and the gather one by one."""
    gains = [
        (product + 2 * scatter) / (makespan(sent_in_steps(product, scatter, devices)) + scatter)
        for product, scatter, devices in sublayers()
    ]
    assert prod(gains) ** (1 / len(gains)) == pytest.approx(1.30, abs=0.06)
    assert max(gains) == pytest.approx(1.47, abs=0.06)
    assert min(gains) > 1.0


def test_the_gather_bounds_what_can_be_gained() -> None:
    """With a product as long as the scatter, one part in t is exposed: 3 over 2 + 1 / t."""
    for devices in (2, 4, 8, 16):
        gain = 3.0 / (makespan(sent_in_steps(1.0, 1.0, devices)) + 1.0)
        assert gain == pytest.approx(3.0 / (2.0 + 1.0 / devices))
