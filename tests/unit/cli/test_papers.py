"""`clustersim papers`: names, forms, the file in which figures are kept."""

import json
from pathlib import Path

import pytest

from simulator.cli import main


def test_named_papers_are_printed_written_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache, pages = tmp_path / "kept.json", [tmp_path / name for name in ("p.html", "p.md", "p.json")]
    options = [word for one in pages for word in (f"--{one.suffix[1:].replace('md', 'markdown')}", str(one))]
    assert main(["papers", "t3", "--cache", str(cache), *options]) == 0
    shown = capsys.readouterr().out
    assert "T3: products that trigger their reduce-scatter" in shown
    assert "reproduced" in shown
    assert json.loads(cache.read_text())["figures"]
    found = json.loads(pages[2].read_text())
    assert {one["paper"] for paper in found["papers"] for one in paper["figures"]} == {"t3"}
    assert pages[0].read_text().startswith("<!DOCTYPE html>")
    assert "| claim | published |" in pages[1].read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sarathy"], "no published system is called `sarathy`"),
        (["--cache", "a", "--no-cache"], "exclude each other"),
        (["--cache", "."], "."),
        (["--html", "-"], "--html writes a file and cannot print"),
    ],
)
def test_bad_words_give_a_message(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["papers", *words]) == 2
    assert message in capsys.readouterr().err
