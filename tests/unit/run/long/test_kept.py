"""`--resume`: an interrupted simulation of a run of weeks goes on where it was, and comes to the same."""

import json
from pathlib import Path
from zlib import crc32

import pytest

from simulator.cli import main
from simulator.run.long.life import Life, Record

QUICK = "scenarios/quickstart.yaml"
RUN = (
    "+training.run={days: 1, samples: 2, checkpoints: {interval: 20 min}, recovery: {detection: 1 h, spares: 2}, "
    "failures: {causes: [{name: node, of: node, mtbf: 8 h}, {name: hot, of: device, mtbf: 5 d, left: 70 %}]}}"
)


def ran(folder: Path, name: str, *options: str) -> dict[str, object]:
    out = folder / f"{name}.json"
    assert main(["run", QUICK, RUN, "--quiet", "--json", str(out), *options]) == 0
    found = json.loads(out.read_text())
    assert isinstance(found, dict)
    return {key: found[key] for key in ("metrics", "run", "warnings", "assumptions")}


class Lives:
    """Counts the lives that are simulated, and may stop at one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.last, plain = 0, 10**9, Life.run

        def run(life: Life) -> Record:
            if self.count >= self.last:
                raise KeyboardInterrupt
            self.count += 1
            return plain(life)

        monkeypatch.setattr(Life, "run", run)


def test_an_interrupted_simulation_goes_on_and_comes_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lives = Lives(monkeypatch)
    plain = ran(tmp_path, "plain")
    whole, kept = lives.count, str(tmp_path / "kept")
    lives.count, lives.last = 0, 2
    assert main(["run", QUICK, RUN, "--quiet", "--resume", kept]) == 130
    with open(kept, "a") as file:
        file.write('{"key": "cut of')
    lives.count, lives.last = 0, whole
    assert ran(tmp_path, "again", "--resume", kept) == plain
    assert lives.count == whole - 2
    lives.count, lives.last = 0, 0
    assert ran(tmp_path, "known", "--resume", kept) == plain


def test_a_file_of_something_else_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    ran(tmp_path, "one", "--resume", str(kept))
    capsys.readouterr()
    assert main(["run", QUICK, RUN, "seed=5", "--resume", str(kept)]) == 2
    assert "another run" in capsys.readouterr().err
    assert main(["run", QUICK, RUN, "--fold", "none", "--resume", str(kept)]) == 2
    assert "another run" in capsys.readouterr().err
    for text in ("{}\n", "[1]\n", "\0\n", kept.read_text() + "5\n", kept.read_text() + '{"key": [], "is": 1}\n'):
        other = tmp_path / "other"
        other.write_text(text)
        assert main(["run", QUICK, RUN, "--resume", str(other)]) == 2
        assert "cannot be used to go on" in " ".join(capsys.readouterr().err.split())
        assert other.read_text() == text
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    for line in lines[1:]:
        line["is"] = {"ticks": 3}
        line["sum"] = crc32(json.dumps([line["key"], line["is"]]).encode())
    other.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["run", QUICK, RUN, "--resume", str(other)]) == 2
    assert "damaged" in capsys.readouterr().err


def test_a_digit_that_changed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    ran(tmp_path, "one", "--resume", str(kept))
    text = kept.read_text()
    digits = [place for place, letter in enumerate(text) if letter.isdigit() and place > text.index("\n")]
    for place in (digits[3], digits[len(digits) // 2], digits[-1]):
        changed = str((int(text[place]) + 1) % 10)
        kept.write_text(text[:place] + changed + text[place + 1 :])
        assert main(["run", QUICK, RUN, "--quiet", "--resume", str(kept)]) == 2
        assert "damaged" in capsys.readouterr().err


def test_where_it_has_no_meaning_it_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "kept"
    for file in (QUICK, "scenarios/serving/quickstart.yaml", "grpo-7b-split"):
        assert main(["run", file, "--resume", str(kept)]) == 2
        assert "--resume" in capsys.readouterr().err
    for place in ("-", str(tmp_path), str(tmp_path / "no" / "kept")):
        assert main(["run", QUICK, RUN, "--resume", place]) == 2
        assert capsys.readouterr().err.count("\n") <= 6
    assert not kept.exists()
