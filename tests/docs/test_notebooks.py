"""Notebooks: every cell runs within the notebook's own time limit, and hidden cells hold the text to what was computed.

What is held to the limit is processor time, which a busy machine does not lengthen; the clock only ends what hangs.
Cells are run as a kernel runs them, one after the other with their last value shown, but without Jupyter.
"""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from docs.fingerprint import PROGRAM, fingerprint

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(path for path in FOLDER.glob("*.md") if path.stem != "index")
CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(?P<options>(?::\w+: [^\n]*\n)*)(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE
)
HEAD = """---
jupytext:
  notebook_metadata_filter: mystnb
  text_representation:
    extension: .md
    format_name: myst
kernelspec:
"""
PATIENCE = 20
"""Times a notebook's limit after which it hangs."""
LIMIT = re.compile(r"^mystnb:\n  execution_timeout: (\d+)$", re.MULTILINE)

KERNEL = """
import ast, json, resource, sys
def show(value):
    if value is not None:
        html = getattr(value, "_repr_html_", None)
        print(html() if html else repr(value))
sys.displayhook = show
names = {"__name__": "__main__"}
for name, code in json.load(sys.stdin):
    exec(compile(ast.Interactive(ast.parse(code).body), name, "single"), names)
import matplotlib.pyplot as plt
used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
print("seconds:", sum(one.ru_utime + one.ru_stime for one in used))
print("figures:", len(plt.get_fignums()))
"""


@dataclass(frozen=True)
class Notebook:
    """What a notebook's text holds."""

    limit_s: int
    """Seconds that it may take."""
    cells: tuple[str, ...]
    """Code, in its order."""
    hidden: tuple[str, ...]
    """Those cells that the page does not show."""


def read(path: Path) -> Notebook:
    text = path.read_text(encoding="utf-8")
    limit = LIMIT.search(text)
    assert limit, "`mystnb: execution_timeout:` is missing in the first lines"
    found = list(CELL.finditer(text))
    hidden = tuple(match["code"] for match in found if "remove-cell" in match["options"])
    return Notebook(int(limit[1]), tuple(match["code"] for match in found), hidden)


def run(cells: list[tuple[str, str]], folder: Path, limit_s: int) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-W", "error:::simulator", "-c", KERNEL]
    return subprocess.run(
        command,
        input=json.dumps(cells),
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE * limit_s,
        check=False,
    )


def every_notebook(argument: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(argument, NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])


QUICK = ("chunked-prefill", "first-steps")
"""Notebooks of a few seconds."""


@pytest.mark.parametrize(
    "path", [pytest.param(one, marks=[pytest.mark.slow] * (one.stem not in QUICK), id=one.stem) for one in NOTEBOOKS]
)
def test_every_cell_runs_within_the_time_limit(path: Path, tmp_path: Path) -> None:
    """And what the text claims is what was computed: hidden cells assert it."""
    notebook = read(path)
    cells = [(f"{path.name}, cell {number}", code) for number, code in enumerate(notebook.cells, 1)]
    done = run(cells, tmp_path, notebook.limit_s)
    assert done.returncode == 0, done.stderr
    *_, seconds, figures = re.findall(r"^(?:seconds|figures): (.+)$", done.stdout, re.MULTILINE)
    assert float(seconds) <= notebook.limit_s
    assert int(figures) >= 1


@every_notebook("path")
def test_the_text_is_held_to_what_was_computed(path: Path) -> None:
    notebook = read(path)
    assert any("assert " in code for code in notebook.hidden)
    assert not [code for code in notebook.cells if code not in notebook.hidden and "assert " in code]


@every_notebook("path")
def test_the_form_is_the_one_that_jupytext_and_sphinx_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(HEAD)
    assert text.count("{code-cell}") == len(read(path).cells)
    assert read(path).limit_s <= 60


def test_an_error_in_a_cell_is_an_error_that_names_it(tmp_path: Path) -> None:
    done = run([("cell 1", "x = 1\nx"), ("cell 2", "assert x == 2")], tmp_path, 30)
    assert done.returncode == 1
    assert 'File "cell 2", line 1' in done.stderr and done.stderr.rstrip().endswith("AssertionError")


def test_eleven_notebooks_and_no_stored_outputs() -> None:
    assert len(NOTEBOOKS) == 11
    assert "docs/notebooks/*.ipynb" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_outputs_are_kept_for_one_state_of_the_program(tmp_path: Path) -> None:
    for folder in PROGRAM:
        (tmp_path / folder).mkdir()
    (tmp_path / "simulator" / "a.py").write_text("x = 1\n")
    before = fingerprint(tmp_path)
    assert before == fingerprint(tmp_path) and re.fullmatch("[0-9a-f]{16}", before)
    (tmp_path / "simulator" / "a.py").write_text("x = 2\n")
    changed = fingerprint(tmp_path)
    (tmp_path / "scenarios" / "b.yaml").touch()
    assert len({before, changed, fingerprint(tmp_path)}) == 3
