"""What is gathered of very many requests without columns of all of them."""

import numpy as np
import pytest

from simulator.axes import EP
from simulator.results.serving import service as figures
from simulator.run import service
from simulator.run.dispatch import simulate
from simulator.run.serve import serve
from simulator.run.served import rows
from simulator.specs import load_scenario


def test_where_requests_stand_is_found_without_a_column_of_all() -> None:
    """As a column of all requests says it, of a sample, of a permutation, of a range and of nothing."""
    drawn = np.random.default_rng(3)
    asked = drawn.integers(0, 50, 200)
    for order in (drawn.permutation(50)[:20], drawn.permutation(50), np.zeros(0, np.int64)):
        column = np.full(50, -1)
        column[order] = np.arange(len(order))
        assert service._rows_in(order, asked).tolist() == column[asked].tolist()
    assert service._rows_in(range(50), asked) is asked


def test_most_requests_at_once_are_counted_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal to a count at every arrival, with arrivals and finishes in one tick on the edges of parts."""
    drawn = np.random.default_rng(5)
    arrival = np.sort(drawn.integers(0, 40, 300))
    finish = arrival + drawn.integers(1, 12, 300)
    most = max(int(((arrival <= tick) & (finish > tick)).sum()) for tick in arrival)
    for part in (7, 64, 1 << 20):
        monkeypatch.setattr(figures, "MOST_GAPS", part)
        assert figures.concurrent(arrival, finish) == most
    assert figures.concurrent(arrival[::-1], finish[::-1]) == most


@pytest.mark.parametrize(("stack", "charged"), [("bare-metal", True), ("vllm", False)])
def test_an_engine_is_extrapolated_to_a_board_that_it_has_no_kernels_for(stack: str, charged: bool) -> None:
    """1.5 GB of CUDA were taken from the 4 GB of an FPGA board, and nothing was said."""
    changes = [f"stack={stack}", "requests.count=2"]
    found = simulate(load_scenario("serving/tellme-kv260", changes).scenario)
    assert (found.memory[0].at_peak.get("runtime", 0.0) > 0) == charged
    warned = [text for text in found.warnings if text.startswith("extrapolated: ")]
    assert len(warned) == (not charged)


def test_rows_of_a_failing_pipeline_are_in_the_order_of_time() -> None:
    """What ran when a replica failed was written down batch by batch, the one that had begun last first."""
    changes = ["requests.count=20", "requests.lengths={prompt: {uniform: [10, 900]}, output: {uniform: [1, 100]}}"]
    changes += ["+serving.parallel={pp: 4}", "+serving.fleet={failures: {mtbf: 500 ms, repair: {fixed: 0}}}"]
    found = serve(load_scenario("serving/quickstart", changes).scenario).service
    assert found is not None and found.fleet is not None
    assert (np.diff(found.replicas[0].iterations.start) >= 0).all()


@pytest.mark.parametrize(("saved", "left"), [(0.0, 2.0), (0.5, 1.5), (3.0, 0.0)])
def test_what_overlaps_without_communication_is_taken_from_the_rest(saved: float, left: float) -> None:
    """A batch in two halves on one device ended in a division by zero."""
    seconds = {EP.name: 0.0, "other": 2.0, "linear": 1.0}
    rows._hide(seconds, saved)
    assert seconds == {EP.name: 0.0, "other": left, "linear": 1.0}
