"""Robust least squares: coefficients that made the rows are found, what rows do not settle is named."""

import numpy as np
import pytest

from simulator.calibration.fitting import Found, Parameter, of_device, shared, solution, unsettled
from simulator.calibration.stacks.serving import FIELDS, fields_of

X = np.linspace(1.0, 8.0, 40)
PARAMETERS = {"rate": Parameter(1.0, 0.1, 10.0), "offset": Parameter(0.5, 0.0, 1.0, False)}


def residuals(made: Found, found: Found) -> np.ndarray:  # type: ignore[type-arg]
    return np.log(found["rate"] * X + found["offset"]) - np.log(made["rate"] * X + made["offset"])


def test_the_coefficients_that_made_the_rows_are_found() -> None:
    made = {"rate": 1.4, "offset": 0.55}
    solved = solution(PARAMETERS, lambda found: residuals(made, found), {}, 100)
    assert solved.found == pytest.approx(made, rel=0.02)
    assert unsettled("here", solved) == []


def test_what_no_row_depends_on_stays_and_is_named() -> None:
    parameters = {**PARAMETERS, "idle": Parameter(2.0, 1.0, 4.0)}
    solved = solution(parameters, lambda found: residuals({"rate": 1.4, "offset": 0.5}, found), {}, 100)
    assert solved.found["idle"] == pytest.approx(2.0)
    assert unsettled("here", solved) == ["here: not identified by its rows: idle"]


def test_what_ends_at_a_bound_is_named() -> None:
    solved = solution(PARAMETERS, lambda found: residuals({"rate": 100.0, "offset": 0.5}, found), {}, 200)
    assert "rate" in solved.bounded
    assert "here: at a bound of its range: rate" in " ".join(unsettled("here", solved))


def test_devices_share_what_is_not_their_own() -> None:
    names = shared(PARAMETERS, ("offset",), ("a", "b"))
    assert sorted(names) == ["offset@a", "offset@b", "rate"]
    assert of_device({"rate": 1.0, "offset@a": 0.1, "offset@b": 0.2}, "b") == {"rate": 1.0, "offset": 0.2}


def test_numbers_of_the_stack_that_another_extends_are_fitted_with_it_alone() -> None:
    """The host of an iteration is the engine's own behind Triton; only what its file states is fitted on its rows."""
    assert fields_of("tensorrt-llm-triton") == ("kernel_efficiency", "request_overhead")
    assert fields_of("vllm-v0")[:3] == FIELDS == fields_of("vllm-0.5")
