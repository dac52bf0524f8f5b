"""Times between simulated points, and fits without rows that have something in common."""

from math import log
from types import SimpleNamespace
from typing import Any

import pytest

from simulator.calibration.asked import Asked
from simulator.calibration.stacks import training as fit_stacks
from simulator.calibration.stacks.between import Between, Point, corners
from simulator.calibration.stacks.held_out import beyond, groups_of, kinds_of, scale
from simulator.calibration.stacks.prior import Prior


def step(work: float, fixed: float, layers: int) -> Any:
    """A step that is work at an efficiency, a fixed time, and an overhead a layer."""
    return lambda point: work / point[0] + fixed + layers * point[1]


def test_a_time_that_is_linear_is_met_between_corners_and_simulated_once() -> None:
    steps = {"a": step(0.6, 0.1, 40), "b": step(0.3, 0.5, 0)}
    asked: list[tuple[str, Point]] = []

    def ratios(tasks: Any) -> list[float]:
        asked.extend(tasks)
        return [log(steps[name](point)) for name, point in tasks]

    times = Between(ratios)
    for point in [(0.73, 1.1e-3), (0.71, 0.9e-3), (0.75, 1.2e-3), (0.74, 0.0)]:
        assert times.at(["a", "b"], point) == pytest.approx([steps["a"](point), steps["b"](point)], rel=1e-9)
    assert len(asked) == len(set(asked)) == 2 * (2 * 3 + 2)


def test_shares_of_corners_sum_to_one_and_a_corner_is_its_own() -> None:
    assert corners((0.75, 0.0)) == [((0.75, 0.0), 1.0)]
    assert sum(share for _, share in corners((0.62, 1.5e-3))) == pytest.approx(1.0)
    assert {point[0] for point, _ in corners((0.62, 1.5e-3))} == {0.6, 0.65}


def mapped(name: str, devices: int = 8, source: str = "one", heads: tuple[int, int] = (8, 8), tp: int = 1) -> Any:
    """A row as fits see it."""
    row = SimpleNamespace(id=name, devices=devices, device="H100", source=source, seq_len=4096, tp=tp)
    row.cp = row.ep = row.pp = None
    model = SimpleNamespace(heads=heads[0], kv_heads=heads[1], experts=None)
    return SimpleNamespace(row=row, scenario=SimpleNamespace(model=model), stack="family")


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other stacks have, of stacks that do not ship."""
    monkeypatch.setattr(fit_stacks, "prior", lambda *_: Prior((0.8, 1e-3), (0.1, 0.5)))


def test_rows_are_grouped_by_what_they_are() -> None:
    rows = [mapped("a"), mapped("b", 1024, heads=(8, 2), tp=4)]
    groups = groups_of(rows)
    assert groups["grouped queries"] == groups["cut along tp"] == groups["devices: more than 512"] == {"b"}
    assert groups["dense"] == groups["stack: family"] == {"a", "b"}
    assert "mixtures of experts" not in groups
    assert [scale(n) for n in (1, 8, 9, 512, 513)] == ["1 to 8", "1 to 8", "9 to 64", "65 to 512", "more than 512"]
    assert kinds_of(rows[0])[0] == "devices: 1 to 8"


def test_a_group_is_scored_by_a_fit_that_has_not_seen_it() -> None:
    """Large runs are slower by a tenth than what small ones teach, and show it when they are held out."""
    rows = [mapped(str(i), 8 if i < 6 else 1024) for i in range(12)]
    measured = {m.row.id: (1.0 if m.row.devices == 8 else 1.1) / 0.7 for m in rows}
    times = Between(lambda tasks: [log(1 / point[0] / measured[name]) for name, point in tasks])
    said: list[str] = []
    groups = groups_of(rows, lambda m: [scale(m.row.devices)])
    found = fit_stacks.without(Asked((), say=said.append), times, {"family": rows}, {"family": (0.67, 0.0)}, groups)
    assert found["more than 512"]["6"] == pytest.approx(1 / 1.1 - 1, abs=2e-3)
    assert found["1 to 8"]["0"] == pytest.approx(0.1, abs=3e-2)
    assert len(said) == 2


@pytest.mark.parametrize(
    ("device", "precision", "attention", "words"),
    [
        ("H100-80GB", "bf16", "grouped", []),
        ("H100-80GB", "fp8 (hybrid, TE)", "grouped", ["8-bit products"]),
        ("GB200", "mxfp8", "mla", ["8-bit products", "latent attention", "Blackwell"]),
        ("B300", "nvfp4", "grouped", ["4-bit products", "Blackwell"]),
        ("TPU-v5e", "int8 (AQT) training", "grouped", ["8-bit products"]),
    ],
)
def test_what_fits_have_not_seen_has_groups_of_its_own(
    device: str, precision: str, attention: str, words: list[str]
) -> None:
    row = SimpleNamespace(device=device, precision=precision)
    one: Any = SimpleNamespace(
        row=row, scenario=SimpleNamespace(model=SimpleNamespace(attention=attention)), stack="family"
    )
    assert beyond(one) == words


def test_rows_that_no_fit_takes_are_scored_by_their_stack_s_fit() -> None:
    """Its rows in 16 bits ask for 0.7; those in 8 bits take a tenth more, and teach nothing."""
    fitted, scored = [mapped(str(i)) for i in range(6)], {"family": [mapped("narrow")], "other": [mapped("apart")]}
    times = Between(lambda tasks: [log(0.7 / point[0] / (1.1 if name == "narrow" else 1.0)) for name, point in tasks])
    said = Asked((), say=lambda _: None)
    for point in ((0.7, 0.0), (0.9, 0.0)):
        held = fit_stacks.without(
            said, times, {"family": fitted}, {"family": point}, {"8 bits": frozenset({"narrow", "apart"})}, (0,), scored
        )
        assert held == {"8 bits": {"narrow": pytest.approx(1 / 1.1 - 1, abs=2e-3)}}


def test_few_rows_outside_a_group_teach_nothing() -> None:
    """Three rows carry no number: those of other stacks stand in, not the number that has seen the group."""
    rows = [mapped(str(i), source="large" if i < 9 else "small") for i in range(12)]
    times = Between(lambda tasks: [log(0.7 / point[0]) for _, point in tasks])
    groups = groups_of(rows, lambda m: [m.row.source])
    found = fit_stacks.without(Asked((), say=lambda _: None), times, {"family": rows}, {"family": (0.7, 0.0)}, groups)
    assert found["large"]["0"] == pytest.approx(0.7 / 0.8 - 1, abs=1e-3)


def test_a_source_is_scored_whole_by_a_fit_that_has_not_seen_it() -> None:
    """Rows in formats that no fit takes count with their source; a source and a stack in no fit err as they ship."""
    fitted = [mapped(str(i), source="large" if i < 9 else "other") for i in range(18)]
    scored = [mapped("narrow", source="large"), mapped("apart", source="third")]
    alone = [mapped("alone")]
    alone[0].scenario.stack = SimpleNamespace(
        compute_efficiency=SimpleNamespace(value=0.6), layer_overhead=SimpleNamespace(value=0.0)
    )
    measured = {m.row.id: (1.0 if m.row.source == "large" else 1.2) / 0.9 for m in fitted} | {"narrow": 1.0 / 0.9}
    times = Between(lambda tasks: [log(1 / point[0] / measured.get(name, 1.0)) for name, point in tasks])
    said: list[str] = []
    stacks = {"family": (fitted, scored), "bare": ([], alone)}
    found = fit_stacks.unseen(Asked((), say=said.append), times, stacks)
    assert found["0"] == found["narrow"] == pytest.approx(0.2, abs=0.01)  # 0.75 fits the other nine
    assert found["17"] == pytest.approx(-1 / 6, abs=0.01)
    assert found["apart"] == pytest.approx(1 / 0.8 - 1)
    assert found["alone"] == pytest.approx(1 / 0.6 - 1)
    assert len(found) == 21 and len(said) == 4


@pytest.mark.parametrize(
    ("precision", "device", "tier", "fitted"),
    [
        ("bf16", "H100-80GB", 2, True),
        ("fp8", "H100-80GB", 1, False),
        ("bf16", "B200", 1, False),
        ("fp16", "A100-40GB", 3, False),
    ],
)
def test_which_rows_fits_take(precision: str, device: str, tier: int, fitted: bool) -> None:
    row: Any = SimpleNamespace(precision=precision, device=device, tier=tier)
    assert fit_stacks.is_fitted(row) == fitted
