"""Orders of four ranks and eight microbatches, pass by pass.

The files hold what public generators make at these sizes: PyTorch's `InterleavedZeroBubble` for ZB-H1 and
`Interleaved1F1B`, `ZBVZeroBubble`, `DualPipeV`; DeepSeek's dualpipe.py; the slots of Chimera's paper.
"""

from pathlib import Path

import pytest

from simulator.program.validate import validate
from simulator.training.schedules import SCHEDULES, Pipeline
from tests.orders import lines

CASES = [("zb-h1", 1), ("interleaved-1f1b", 2), ("zb-v", 2), ("dualpipe", 1), ("dualpipev", 2), ("chimera", 1)]


@pytest.mark.parametrize(("name", "chunks"), CASES)
def test_order(name: str, chunks: int) -> None:
    schedule = validate(SCHEDULES.get(name)(Pipeline(4, chunks, 8)))
    assert lines(schedule) == (Path(__file__).parent / f"{name}.txt").read_text().splitlines()
