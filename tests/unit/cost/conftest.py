"""A small device whose numbers are easy to follow."""

from typing import Any

import pytest

from simulator.specs.hardware import Accelerator


def accelerator(**changes: Any) -> Accelerator:
    """An accelerator of 100 TFLOP/s in 16 bits and 1 TB/s, with the generic kernel profile."""

    def figure(value: str | int) -> dict[str, Any]:
        return {"value": value, "status": "estimate", "source": "test"}

    data: dict[str, Any] = {
        "name": "test device",
        "vendor": "nobody",
        "kind": "gpu",
        "year": 2024,
        "peak": {"bf16": figure("100 TFLOP/s"), "fp32": figure("10 TFLOP/s")},
        "memory": {"capacity": figure("40 GB"), "bandwidth": figure("1 TB/s")},
        "cores": figure(100),
        "on_chip": figure("40 MB"),
    }
    return Accelerator.model_validate(data | changes)


@pytest.fixture
def plain() -> Accelerator:
    """The device as it is."""
    return accelerator()
