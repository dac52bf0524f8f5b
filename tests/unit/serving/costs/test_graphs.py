"""Sizes of captured graphs."""

import numpy as np
import pytest
from pydantic import ValidationError

from simulator.serving.costs.graphs import GraphSizes, graph_sizes
from simulator.serving.costs.iteration import StageCost
from simulator.specs import load_spec
from simulator.specs.serving import ServingStack
from tests.unit.serving.costs.test_iteration import MIXTRAL, compiled, stack

STEPS = ((2, 1), (4, 2), (256, 8), (512, 16))


def test_sizes_are_those_that_vllm_captures() -> None:
    """[1, 2, 4] + multiples of 8 below 256 + multiples of 16 up to 512 (vllm/config)."""
    theirs = np.array([1, 2, 4, *range(8, 256, 8), *range(256, 513, 16)])
    rows = np.arange(1, 513)
    expected = theirs[np.searchsorted(theirs, rows)]
    assert GraphSizes(STEPS, 1, 512, 512).captured(rows).tolist() == expected.tolist()
    beyond = np.array([513, 1000])
    assert GraphSizes(STEPS, 1, 512, 512).captured(beyond).tolist() == beyond.tolist()


def test_sizes_of_tensorrt_llm_double() -> None:
    """[1, 2, 4], multiples of 8 up to 128, powers of two, and the largest batch (llm_args.py of 1.0)."""
    sizes = graph_sizes(load_spec(ServingStack, "tensorrt-llm-serve"), 1, 384)
    assert sizes is not None
    assert sizes.captured(np.array([3, 100, 129, 257, 300, 384])).tolist() == [4, 104, 256, 384, 384, 384]


def test_rows_that_are_verified_go_with_their_sequence() -> None:
    sizes = GraphSizes(STEPS, 4, 4 * 256, 4 * 100)
    assert sizes.captured(np.array([4, 12, 20, 21, 396, 400])).tolist() == [4, 16, 32, 32, 400, 400]


def test_limits_that_are_sizes_make_equal_graphs() -> None:
    """Runs with other limits may then share what iterations cost."""
    own = load_spec(ServingStack, "tensorrt-llm-serve")
    assert graph_sizes(own, 1, 64) == graph_sizes(own, 1, 128) != graph_sizes(own, 1, 100)


def test_none_where_a_graph_has_every_size_or_nothing_is_captured() -> None:
    assert graph_sizes(stack(), 1, 256) is None
    assert graph_sizes(stack(graphs=None, graph_steps=STEPS), 1, 256) is None


def test_a_batch_costs_what_the_graph_costs_that_it_fills() -> None:
    """On sizes that are captured nothing changes; between them products take as long as on the next size, and beyond
    the largest graph nothing is filled up."""
    plain, filled = (compiled(graphs=256, **more).stages[0] for more in ({}, {"graph_steps": STEPS}))  # type: ignore[arg-type]
    for rows in (1, 2, 4, 8, 248, 256, 257, 300, 1000):
        assert filled.rows(rows, 1) == plain.rows(rows, 1)
    between = filled.rows(241, 1)
    assert plain.rows(241, 1) < between <= plain.rows(248, 1) * (1 + 1e-6)
    assert filled.parts(241, 1)["linear"] == filled.parts(248, 1)["linear"]
    assert filled.captured(241) == 248 and plain.captured(241) == 241


def test_experts_do_not_work_on_what_fills_up() -> None:
    plain, filled = (compiled(MIXTRAL, tp=2, **more).stages[0] for more in ({}, {"graph_steps": STEPS}))  # type: ignore[arg-type]
    more = filled.rows(5, 1) - plain.rows(5, 1)
    assert 0 <= more < plain.rows(8, 1) - plain.rows(5, 1)


def test_iterations_with_prompts_that_are_not_captured_fill_nothing_up() -> None:
    changes = {"graphs": 256, "graph_prompts": False, "kernel_launch": 0.0}
    plain, filled = (compiled(**changes, **more).stages[0] for more in ({}, {"graph_steps": STEPS}))  # type: ignore[arg-type]
    assert filled.rows(241, 1) > plain.rows(241, 1)
    with_prompts = [cost.rows(241, 1) + cost.launches(241) for cost in (plain, filled)]
    assert with_prompts[0] == pytest.approx(with_prompts[1], abs=20)


def test_sizes_ascend() -> None:
    with pytest.raises(ValidationError, match="do not ascend: write the smallest first"):
        stack(graph_steps=((8, 4), (4, 2)))


def test_a_host_beside_the_device_launches_what_no_graph_holds() -> None:
    """Iterations with prompts beyond the graphs, or all of them, and batches larger than the largest graph."""
    host = {"value": "2 ms", "status": "estimate", "source": "a test"}
    one, all_prompts = (
        compiled(graphs=256, graph_prompts=captured, kernel_launch="10 us", ahead_overhead=host).stages[0]
        for captured in (True, False)
    )
    launching = one.least(16, 300, prompts=True) - one.least(16, 16)
    assert one.least(16, 16) == 2e9
    assert launching == one.least(300, 300) - one.least(300, 256) > 0
    assert launching % 1e7 == 0 and launching / 1e7 == all_prompts.launch_ticks[0] / 1e7
    assert one.least(16, 200, prompts=True) == 2e9 == all_prompts.least(200, 200)
    assert all_prompts.least(16, 200, prompts=True) == 2e9 + launching
    assert compiled(graphs=256, kernel_launch="10 us").stages[0].least(16, 1000, prompts=True) == 0


def test_longer_decodes_replay_no_graph() -> None:
    """vLLM's V0 engine: decodes of more than `max_seq_len_to_capture` tokens wait for the launch of each kernel."""
    changes = {"graphs": 256, "graph_prompts": False, "kernel_launch": "60 us"}
    every, short = (compiled(**changes, **more).stages[0] for more in ({}, {"graph_context": 8192}))  # type: ignore[arg-type]

    def ticks(cost: StageCost, context: int) -> int:
        return next(base + slope * context for end, base, slope in cost.decode(16) if context <= end)

    assert ticks(short, 16 * 8192) == ticks(every, 16 * 8192)
    waits = every.launches(16)
    assert waits > 0
    for context in (16 * 8192 + 1, 16 * 20_000):
        assert ticks(short, context) - ticks(every, context) == waits
    ends = [end for end, *_ in short.decode(16)]
    assert ends == sorted(ends) and ends[-1] == every.decode(16)[-1][0]
