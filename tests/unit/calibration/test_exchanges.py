"""The fit of exchanges with experts: the closed form is the price, and what made the rows is found again."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("scipy")

from simulator.calibration.collectives.exchanges import FIGURES, Model
from simulator.cli import main
from simulator.interop.rows.exchanges import ExchangeRow, MappedExchange, map_exchange
from simulator.interop.rows.jsonl import parse_line, read_lines, read_row
from simulator.run.measured.exchanges import predicted
from simulator.specs import data_root
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

SHIPPED = data_root() / "workloads" / "measurements" / "exchanges.jsonl"


def rows() -> list[MappedExchange]:
    return [map_exchange(read_row(ExchangeRow, parse_line(line))) for line in read_lines(SHIPPED)]


def shipped() -> np.ndarray:  # type: ignore[type-arg]
    """Logarithms of the figures as they are in the profiles."""
    found = []
    for name, (library, *_) in FIGURES.items():
        protocol = load_spec(CollectiveProfile, library).protocols["kernels"]
        kind = name.partition(" ")[0]
        scope = protocol.scale_up if kind == "inside" else protocol.scale_out
        found.append(scope.launch.value if kind == "launch" else scope.efficiency.value)
    return np.log(found)


def test_the_closed_form_is_the_price() -> None:
    some = rows()[::5]
    prices = [predicted(row, load_spec(CollectiveProfile, row.library)) for row in some]
    assert np.exp(Model(some).logs(shipped())) == pytest.approx(prices, rel=1e-6)


def test_profiles_that_share_a_figure_have_the_same() -> None:
    for name, libraries in FIGURES.items():
        kind = name.partition(" ")[0]
        protocols = [load_spec(CollectiveProfile, library).protocols["kernels"] for library in libraries]
        if kind == "launch":
            assert len({protocol.scale_out.launch.value for protocol in protocols}) == 1
        else:
            scopes = [p.scale_up if kind == "inside" else p.scale_out for p in protocols]
            assert len({scope.efficiency.value for scope in scopes}) == 1


def test_the_shipped_figures_are_those_of_the_fit(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "exchanges", str(SHIPPED)]) == 0
    lines = capsys.readouterr().out.splitlines()
    fitted = {name: float(value) for name, _, value in (line.rpartition(": ") for line in lines[: len(FIGURES)])}
    assert list(fitted.values()) == pytest.approx(np.exp(shipped()).tolist(), rel=0.005)
    assert "every source left out in turn: median" in lines[-1]


def test_rows_that_are_none_are_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each ended the command with an internal error."""
    good = SHIPPED.read_text(encoding="utf-8").splitlines()[0]
    beyond = json.dumps(json.loads(good) | {"num_ranks": 24, "num_nodes": 1})
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join((good, '{"id": "x"}', "[1", beyond)))
    assert main(["calibrate", "exchanges", str(file), "--as-is"]) == 0
    out = capsys.readouterr().out
    assert "left out: 3 rows" in out and "of 1 rows" in out
    for text, words in ((beyond, "24 ranks on 1 nodes of 8"), ("", "has no dispatch or combine that is simulated")):
        file.write_text(text)
        assert main(["calibrate", "exchanges", str(file), "--as-is"]) == 2
        assert words in capsys.readouterr().err
