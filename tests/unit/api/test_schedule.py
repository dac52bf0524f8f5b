"""`sim.schedule`: pipeline schedules in Python."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import simulator as sim
from simulator.errors import InputError


def test_a_schedule_has_figures_a_page_a_picture_and_files(tmp_path: Path) -> None:
    made = sim.schedule("zb-h1", 4, 8, weight_gradient=0.5041)
    assert made.by_device[0].busy == float(8 * Fraction("2.5041"))
    assert repr(made) == "<PipelineSchedule 'zb-h1': 4 devices x 8 microbatches, bubble 18.3 %>"
    assert "What it comes to" in str(made)
    assert made._repr_html_().startswith("<svg")
    for ending in ("csv", "svg", "png", "json"):
        made.save(tmp_path / f"a.{ending}")
    again = sim.schedule(tmp_path / "a.csv", weight_gradient="0.5041")
    assert again.passes == made.passes
    assert json.loads((tmp_path / "a.json").read_text())["makespan"] == made.makespan
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_frames() -> None:
    pytest.importorskip("pandas")
    made = sim.schedule("gpipe", 2, 3)
    assert made.to_frame()["own_idle"].tolist() == [device.own_idle for device in made.by_device]
    assert made.to_frame("passes")["kind"].tolist()[:4] == ["F", "F", "F", "B"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"forward": "x"}, "forward: .*is no number from 0"),
        ({"send": -1}, "send: .*is no number from 0"),
        ({"weight_gradient": 1e-12}, "more than 9 decimals"),
        ({"chunks": 0}, "chunks: .*no whole number"),
        ({"stages": None}, "needs `--stages`"),
        ({"source": 3}, "source: .*is no path"),
    ],
)
def test_what_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(sim.InputError, match=words):
        sim.schedule(**{"source": "1f1b", "stages": 4, "microbatches": 8, **change})


def test_a_steady_step_has_no_order_of_its_own(tmp_path: Path) -> None:
    found = sim.schedule("pipedream-2bw", stages=2, microbatches=4)
    assert found.bubble == 0
    with pytest.raises(InputError, match="its steps overlap; `clustersim schedule --csv`"):
        found.save(tmp_path / "order.csv")
    found.save(tmp_path / "order.svg")


def test_slices_and_paths() -> None:
    cut = sim.schedule("seq1f1b", stages=4, microbatches=4, slices=2, attention=0.5, cut="balanced")
    assert (cut.slices, cut.costs.attention) == (2, 0.5)
    skipped = sim.schedule("skippipe", stages=4, microbatches=4, paths=[[0, 1, 3], [0, 2, 3]])
    assert skipped.paths == ((0, 1, 3), (0, 2, 3))
    for wrong in ({"attention": 2}, {"cut": "other"}, {"paths": 3}, {"paths": [[0, "a"]]}):
        with pytest.raises(InputError):
            sim.schedule("seq1f1b", stages=4, microbatches=4, **wrong)
