"""Loads of experts that move from step to step: drifting ones and traces."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.results.result import Result
from simulator.run.simulate import simulate
from simulator.specs.training import RouterLoad
from simulator.training.experts.moving import moved, read_trace
from simulator.training.experts.routing import exchange, with_experts
from tests import jobs

EXPERTS = 8
SHAPE = jobs.model(experts=EXPERTS, top_k=2, layers=2)
LAYERS = SHAPE.layers


def ran(steps: int = 4, **load: Any) -> Result:
    changed = {"routing": load, "steps": steps}
    return simulate(jobs.scenario(shape=SHAPE, batch=8, sequence=4096, ep=4, training=changed))


def drifting(step: int, **keys: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    return moved(RouterLoad(load="drifting", **keys), EXPERTS, with_experts(SHAPE), step)[None]


@pytest.mark.parametrize("drift", [1.0, 0.5, 0.25])
def test_a_drift_conserves_rows_and_averages_to_an_even_load(drift: float) -> None:
    shares = np.array([drifting(step, exponent=1.5, drift=drift) for step in range(int(EXPERTS / drift))])
    assert shares.sum(axis=1) == pytest.approx(np.ones(len(shares)))
    assert shares.mean(axis=0) == pytest.approx(np.full(EXPERTS, 1 / EXPERTS))
    assert shares.max(axis=1).min() > 1.5 / EXPERTS


def test_a_drift_begins_as_zipf_and_goes_round() -> None:
    first = drifting(0, exponent=1.0)
    assert first == pytest.approx(1 / np.arange(1, 9) / (1 / np.arange(1, 9)).sum())
    assert drifting(3) == pytest.approx(np.roll(first, 3))
    assert drifting(EXPERTS) == pytest.approx(first)
    assert drifting(1, drift=0.5) == pytest.approx((first + np.roll(first, 1)) / 2)


def test_each_step_waits_for_the_device_that_is_busiest_in_it() -> None:
    moving = ran(load="drifting")
    assert len(moving.step_times) == 4
    for step, ticks in enumerate(moving.step_times[:2].tolist()):
        counts = (drifting(step) * 1e6).tolist()
        assert ticks == pytest.approx(ran(1, load="counts", counts=counts).metrics["step_time_s"] * 1e12, rel=1e-9)
    assert len(set(moving.step_times.tolist())) == 2  # the two heaviest on one device, or on neighbours
    assert "the busiest device of a layer has 1.66 to 2.21 times" in " ".join(moving.assumptions)
    assert moving.metrics["peak_memory_bytes"] >= ran(1, load="drifting").metrics["peak_memory_bytes"]


def test_placement_and_copies_follow_the_load() -> None:
    copied, packed, stale, still = (
        ran(load="drifting", **keys).step_times
        for keys in (
            {"replicas": 2, "placement": "packed"},
            {"placement": "packed"},
            {"placement": "packed", "rebalanced": 3},
            {},
        )
    )
    assert copied.mean() < 0.95 * packed.mean()
    assert packed.mean() < stale.mean() <= still.max()
    assert stale[[0, 3]].tolist() == packed[[0, 3]].tolist()
    assert stale[0] < stale[1] < stale[2]


def written(path: Path, rows: list[dict[str, Any]], form: str) -> str:
    if form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        named = ["step", *(["layer"] if "layer" in rows[0] else [])]
        lines = [",".join([*named, *(f"e{n}" for n in range(len(rows[0]["tokens"])))])]
        lines += [",".join(map(str, [*(row[name] for name in named), *row["tokens"]])) for row in rows]
        path.write_text("\n".join(lines))
    return str(path)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_trace_of_a_drift_is_that_drift(tmp_path: Path, form: str) -> None:
    rows = [{"step": step, "tokens": (drifting(step) * 840_000).tolist()} for step in range(3)]
    name = written(tmp_path / "trace", rows, form)
    assert ran(3, trace=name).step_times.tolist() == ran(3, load="drifting").step_times.tolist()
    assert ran(2, trace=name, first_step=1).step_times.tolist() == ran(3, load="drifting").step_times[1:].tolist()


def test_layers_of_a_trace_each_wait_for_their_own(tmp_path: Path) -> None:
    """Half of the layers even and half uneven take the mean of both."""
    even, hot = [1.0] * EXPERTS, [9.0, 9.0] + [1.0] * (EXPERTS - 2)
    mixed = [{"step": 0, "layer": n, "tokens": hot if n % 2 else even} for n in range(LAYERS)]
    own, calm, worst = (
        ran(1, trace=written(tmp_path / name, rows, "csv")).metrics["step_time_s"]
        for name, rows in (
            ("mixed", mixed),
            ("even", [{"step": 0, "tokens": even}]),
            ("hot", [{"step": 0, "tokens": hot}]),
        )
    )
    assert LAYERS % 2 == 0
    assert own == pytest.approx((calm + worst) / 2, rel=0.01)
    assert calm < own < worst
    found = exchange(
        jobs.scenario(training={"routing": {"trace": str(tmp_path / "mixed")}}).training,
        jobs.stack(),
        SHAPE,
        4,
        1e4,
        2,
        0,
    )
    assert found is not None
    assert [one.spread.busiest for one in found.loads] == pytest.approx([1.0, 4 * 18 / 24])
    assert found.of_layers == (0, 1) * (LAYERS // 2)


HEAD = "step,layer," + ",".join(map(str, range(EXPERTS))) + "\n"
ROW = "," + ",".join(["1"] * EXPERTS) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no steps"),
        ("0,1,2\n", "line 1 is no head that begins with `step`"),
        (HEAD + "0,0" + ROW + "0,1,1\n", "line 3 has 3 cells, the head 10"),
        (HEAD + "0,0,one" + ROW[2:], "line 2 has rows of experts that are no numbers"),
        (HEAD + "0,0,-1" + ROW[2:], "line 2 has rows that are no numbers of 0 and more"),
        (HEAD + "x,0" + ROW, "line 2 `x` is no number of a step"),
        (HEAD + "0,0" + ROW + "0,0" + ROW, "line 3 says layer 0 of step 0 beside"),
        (HEAD + "1,0" + ROW, "lacks step 0"),
        (HEAD + "0,0" + ROW, "lacks layer 1"),
        (HEAD + "".join(f"0,{n}" + ROW for n in range(99)), "which has no experts"),
        ("step,a,b\n0,1,2\n", "has 2 experts, and a layer of the model has 8"),
        ('{"step": 0, "tokens": [1, 2]}\n{"step": 1, "tokens": [1]}', "line 2 has 1 experts, lines before have 2"),
        ('{"step": 0, "tokens": [NaN]}', "line 1 has rows that are no numbers of 0 and more"),
        ('{"step": 0, "tokens": "many"}', "line 1 is no object with `step` and a list `tokens`"),
        ('{"step": 0, "tokens": [1], "why": 1}', "line 1 has the unknown key `why`"),
        ('{"step": ' + "[" * 5000, "line 1 is no JSON"),
    ],
)
def test_a_trace_of_another_shape_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace"
    path.write_text(text)
    with pytest.raises(InputError, match="trace") as refused:
        ran(1, trace=str(path))
    assert message in str(refused.value)
    assert "line" not in message or f"{path}:{message.split()[1]}" in str(refused.value)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        ({"routing": {"load": "trace"}}, "go together"),
        ({"routing": {"load": "zipf", "trace": "a.csv"}}, "go together"),
        ({"routing": {"trace": "nowhere.csv"}}, "there is no file `nowhere.csv`"),
        ({"routing": {"load": "drifting"}, "steps": 2, "noise": {"jitter": 0.1}}, "not modelled together"),
        ({"routing": {"load": "drifting"}, "steps": 99_999}, "more than 2,000"),
    ],
)
def test_what_has_no_meaning_is_refused(training: dict[str, Any], message: str) -> None:
    with pytest.raises((InputError, ValueError), match=message):
        simulate(jobs.scenario(shape=SHAPE, ep=4, training=training))


def test_more_steps_than_a_trace_has_are_refused(tmp_path: Path) -> None:
    name = written(tmp_path / "trace", [{"step": 0, "tokens": [1.0] * EXPERTS}], "csv")
    with pytest.raises(InputError, match="it has 1 steps: simulate at most 1"):
        ran(2, trace=name)


def test_a_trace_that_changes_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    for many in (2, 3):
        path.write_text("step,a\n" + "".join(f"{step},1\n" for step in range(many)))
        assert len(read_trace(str(path)).tokens) == many
