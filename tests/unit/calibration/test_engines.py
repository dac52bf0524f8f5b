"""What the numbers of a serving stack are likely to be, from kernel tables and other engines."""

import numpy as np
import pytest

from simulator.calibration.stacks.engines import ENGINES, LOOSE, TABLES, engines, likely
from simulator.calibration.stacks.serving import Fit, Slopes, fields_of, nearest_file, unsettled

OTHERS = {"a": {"ahead_overhead": 2e-3}, "b": {"ahead_overhead": 3e-3, "stream_overhead": 0.0}}


def test_a_number_is_held_to_tables_to_other_engines_or_to_what_it_is() -> None:
    own = {"kernel_efficiency": 0.8, "ahead_overhead": 9e-3, "stream_overhead": 5e-5, "verify_overhead": 1e-4}
    found = likely(own, OTHERS)
    assert found.middle == pytest.approx((TABLES["kernel_efficiency"][0], 2.5e-3, 5e-5, 1e-4))
    assert found.spread == (TABLES["kernel_efficiency"][1], ENGINES["ahead_overhead"], LOOSE, LOOSE)


def test_handing_a_token_on_is_the_same_work_beside_the_device_or_not() -> None:
    others = {"a": {"stream_overhead": 6e-5}, "b": {"sequence_overhead": 4e-5}, "c": {"stream_overhead": 0.0}}
    behind = likely({"sequence_overhead": 1e-5, "request_handling": 1e-3}, others)
    assert behind.middle == pytest.approx((5e-5, 1e-3))
    assert likely({"sequence_overhead": 1e-5}, others).middle == (1e-5,)  # an engine that hands nothing to a server


def test_nought_alone_says_nothing() -> None:
    assert likely({"sequence_overhead": 0.0}, OTHERS).spread == (0.0,)


def test_shipped_engines_state_what_they_have_of_their_own() -> None:
    found = engines()
    assert all(0.0 < found[name]["ahead_overhead"] < 0.01 for name in ("vllm-async", "tensorrt-llm-serve"))
    assert "kernel_launch" not in found["vllm-async"]
    assert "sequence_overhead" in found["sglang"] and "sequence_overhead" not in found["tensorrt-llm"]


def test_a_host_beside_the_device_is_fitted_in_place_of_one_that_it_waits_for() -> None:
    assert {"iteration_overhead", "sequence_overhead"} <= set(fields_of("vllm"))
    assert not {"iteration_overhead", "sequence_overhead"} & set(fields_of("tensorrt-llm-serve"))


def test_a_stack_that_states_some_numbers_keeps_those_that_it_extends() -> None:
    """Rows of vLLM behind its server were fitted with the time a sequence of vLLM without one."""
    assert nearest_file("vllm-serve") == "vllm-serve"
    assert fields_of("vllm-serve") == ("sequence_overhead", "request_handling")
    assert nearest_file("vllm-v0-blocks-rocm") == "vllm-v0"


class Row:
    """A row of one source and model."""

    def __init__(self, name: str) -> None:
        self.row = self
        self.id, self.source, self.model = name, "source", "model"


def test_rows_move_what_they_tell_and_leave_the_rest_at_the_prior() -> None:
    fit = Fit(None, [Row(str(i)) for i in range(16)], ("kernel_efficiency", "ahead_overhead"))  # type: ignore[arg-type, list-item]
    known = likely({"kernel_efficiency": 1.0, "ahead_overhead": 1e-3}, OTHERS)
    times = np.array([1.0, 1.0])
    slopes = {m.row.id: (0.9 * times, np.array([0.9 * times, 0.0 * times])) for m in fit.rows}
    efficiency, ahead = fit.minimum((1.0, 1e-3), fit.rows, slopes, known)
    assert efficiency == pytest.approx(0.9, rel=0.02)
    assert ahead == pytest.approx(2.5e-3, rel=0.01)
    assert fit.minimum((0.9, 1e-3), [], slopes, known) == pytest.approx(known.middle, rel=0.01)


class Linear(Fit):
    """Rows whose times are as measured and grow with those of 100 iterations, each of so many sequences."""

    def __init__(self, batches: list[int]) -> None:
        rows = [Row(str(i)) for i in range(len(batches))]
        super().__init__(None, rows, ("iteration_overhead", "sequence_overhead"))  # type: ignore[arg-type]
        self.batches = batches

    def slopes(self, point: tuple[float, ...]) -> Slopes:
        return {str(i): (np.ones(1), np.array([[100.0], [100.0 * n]])) for i, n in enumerate(self.batches)}


def test_rows_of_one_size_of_batch_tell_an_iteration_and_its_sequences_not_apart() -> None:
    point = (10e-3, 100e-6)
    alike = unsettled(Linear([64] * 6), point)
    assert set(alike) == {"iteration_overhead", "sequence_overhead"}
    assert alike["iteration_overhead"].startswith("not identified apart from sequence_overhead")
    assert not unsettled(Linear([1, 2, 32, 64, 256, 512]), point)
