"""Every shipped scenario still answers what its golden file holds."""

import pytest

from tests.golden.record import SLOW, differences, names, read, record

REWRITE = "`python -m tests.golden.rewrite` writes it"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names()]
)
def test_scenario_answers_what_it_did(name: str) -> None:
    golden = read(name)
    assert golden is not None, f"scenario {name} has no golden file: {REWRITE}"
    moved = list(differences(golden, record(name)))
    assert not moved, "\n".join([f"{name} moved; if it should, {REWRITE} anew:", *moved])


def test_differences_are_named_and_signed() -> None:
    old = {"metrics": {"mfu": 0.5, "step_time_s": 2.0}, "feasible": True}
    new = {"metrics": {"mfu": 0.5 * (1 + 1e-12), "step_time_s": 2.2}, "feasible": False}
    assert list(differences(old, new)) == ["metrics.step_time_s: 2 -> 2.2 (+10 %)", "feasible: True -> False"]
    assert list(differences(old, old)) == []
    assert list(differences({}, {"new": 1})) == ["new: None -> 1"]
    assert list(differences({"zero": 0}, {"zero": 1e-300})) == ["zero: 0 -> 1e-300"]
