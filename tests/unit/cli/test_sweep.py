"""`clustersim sweep`, end to end: what it writes, what it refuses, and that it survives being killed."""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from simulator.cli import main
from tests.effort import PATIENCE_S
from tests.unit.cli.conftest import QUICKSTART, ROOT

SERVING = str(ROOT / "scenarios" / "serving" / "quickstart.yaml")
AXES = ("training.parallel.tp=2,4", "training.micro_batch=1,2")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of nobody else."""
    monkeypatch.chdir(tmp_path)


def test_a_sweep_and_all_that_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plots").mkdir()
    options = ["--csv", "t.csv", "--json", "t.json", "--html", "t.html", "--plots", "plots"]
    shown = ["--pareto", "mfu,peak_memory_bytes", "--heat", "tp,micro_batch,mfu", "--top", "2", "--by", "mfu"]
    axes = ["training.parallel.tp=2,4,16", *AXES[1:]]
    assert main(["sweep", QUICKSTART, *axes, *options, *shown, "--jobs", "2"]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    for text in ("6 points: 4 fit, 2 refused", "the best 2 of 4", "Pareto front: more model", "over tp (across)"):
        assert text in out
    assert sorted(os.listdir("plots")) == ["heat.png", "heat.svg", "pareto.png", "pareto.svg"]
    told = json.loads(Path("t.json").read_text())
    assert [row["status"] for row in told["rows"]] == ["ok"] * 4 + ["refused"] * 2
    assert told["best"]["points"][0] in told["pareto"]["points"]
    assert told["heat"]["cells"][0][2] is None
    assert len(Path("t.csv").read_text().splitlines()) == 7
    assert "Pareto front" in Path("t.html").read_text()
    assert sorted(os.listdir(".clustersim")) == ["sweeps.sqlite"]


def test_one_process_or_two_with_or_without_cache_print_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for options in (["--jobs", "1", "--no-cache"], ["--jobs", "2"], ["--jobs", "1"]):
        assert main(["sweep", QUICKSTART, *AXES, "--csv", "-", *options]) == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1] == printed[2]
    assert printed[0].out.startswith("point,training.parallel.tp,training.micro_batch,status")
    assert main(["sweep", QUICKSTART, *AXES]) == 0
    assert "0 tried now" in (out := capsys.readouterr().out)
    assert "4 from the cache" in out


def test_serving(capsys: pytest.CaptureFixture[str]) -> None:
    axes = ["serving.batching.max_sequences=8,64", "requests.arrivals={poisson: 2 /s},{poisson: 4 /s}"]
    assert (
        main(
            [
                "sweep",
                SERVING,
                *axes,
                "requests.count=60",
                "--no-cache",
                "--heat",
                "max_sequences,arrivals,mean_ttft_ms",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "4 points: 4 fit" in out
    assert "{poisson: 4 /s}" in out


def test_a_cache_of_another_version_is_set_aside_with_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", QUICKSTART, *AXES, "--quiet", "--cache", "c"]) == 0
    file = sqlite3.connect("c")
    file.execute("PRAGMA user_version=99")
    file.close()
    assert main(["sweep", QUICKSTART, *AXES, "--quiet", "--cache", "c"]) == 0
    assert "the cache is of another version: it is now `c.version-99`" in capsys.readouterr().err
    assert {"c", "c.version-99"} <= set(os.listdir())


@pytest.mark.parametrize(
    "arguments",
    [
        [QUICKSTART, "training.parallel.tp=1,2", "training.micro_batch=8"],
        [QUICKSTART, *AXES, "--where", "mfu > 99 %", "--pareto", "mfu,hfu"],
    ],
)
def test_where_no_point_is_left_the_exit_code_is_4(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", *arguments, "--no-cache"]) == 4
    assert "points: 0 fit, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([QUICKSTART], "nothing is varied"),
        ([QUICKSTART, "training.micro_batch=2"], "nothing is varied"),
        ([QUICKSTART, "training.paralel.tp=1,2"], "did you mean `parallel`"),
        ([QUICKSTART, "training.parallel.tp=1,,2"], "a value of the list is empty"),
        ([QUICKSTART, "training.parallel.tp=1,1"], "is listed twice"),
        ([QUICKSTART, "training.parallel.tp=1,two"], "`two` is not a whole number"),
        ([QUICKSTART, *AXES, "--where", "tp << 2"], "condition `tp << 2`: is none"),
        ([QUICKSTART, *AXES, "--where", "tp > 100"], "none of 4 points meets the conditions"),
        ([QUICKSTART, *AXES, "--by", "speed"], "unknown metric `speed`"),
        ([QUICKSTART, *AXES, "--pareto", "mfu"], "does not name 2 different things"),
        ([QUICKSTART, *AXES, "--pareto", "mfu,memory"], "unknown metric `memory`"),
        ([QUICKSTART, *AXES, "--heat", "tp,tp,mfu"], "does not name 3 different things"),
        ([QUICKSTART, *AXES, "--heat", "tp,pp,mfu"], "nothing varies `pp`"),
        ([QUICKSTART, *AXES, "--random", "0"], "no whole number from 1"),
        ([QUICKSTART, *AXES, "--csv", "-", "--json", "-"], "cannot both print"),
        ([QUICKSTART, *AXES, "--html", "-"], "cannot print"),
        ([QUICKSTART, *AXES, "--plots", "."], "nothing to draw"),
        ([QUICKSTART, *AXES, "--csv", "no/folder/t.csv"], "its folder does not exist"),
        ([QUICKSTART, *AXES, "--cache", "no/folder/c"], "does not exist"),
        ([QUICKSTART, *AXES, "--cache", "."], "is a folder"),
        ([QUICKSTART, *AXES, "--cache", QUICKSTART], "no cache of sweeps"),
        ([QUICKSTART, *AXES, "--cache", "c", "--no-cache"], "exclude each other"),
        ([QUICKSTART, *AXES, "--executor", "dask"], "add `--scheduler"),
        ([QUICKSTART, *AXES, "--scheduler", "tcp://x"], "no meaning without"),
        (["no-such-file.yaml", *AXES], "no-such-file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error


def test_a_folder_that_takes_no_cache(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert main(["sweep", QUICKSTART, *AXES]) == 2
    assert "cannot be made for the cache: Read-only file system; name another file" in capsys.readouterr().err


# ---- killed ------------------------------------------------------------------------------------------------------

MANY = ("training.parallel.tp=1,2,4,8", "training.micro_batch=1,2,4", "training.global_batch=64,128,192")
COUNT = 36


def start(folder: Path) -> "subprocess.Popen[str]":
    """A sweep of `COUNT` points in a session of its own."""
    command = [sys.executable, "-m", "simulator", "sweep", QUICKSTART, *MANY, "--jobs", "2", "--csv", "table.csv"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def kept(folder: Path) -> int:
    """Outcomes in the cache of a folder."""
    path = folder / ".clustersim" / "sweeps.sqlite"
    if not path.exists():
        return 0
    file = sqlite3.connect(path)
    try:
        return int(file.execute("SELECT count(*) FROM outcomes").fetchone()[0])
    except sqlite3.OperationalError:  # killed before there were tables
        return 0
    finally:
        file.close()


def survives(folder: Path, moments: int, seed: int) -> None:
    """Kill a sweep at random moments, and hold what comes of it in the end against one that nobody disturbed."""
    whole, killed = folder / "whole", folder / "killed"
    whole.mkdir()
    killed.mkdir()
    begin = time.monotonic()
    assert start(whole).wait(timeout=PATIENCE_S) == 0
    lasts, draw, known = time.monotonic() - begin, random.Random(seed), 0
    for _ in range(moments):
        running = start(killed)
        time.sleep(draw.uniform(0.2, 1.0) * lasts)
        running.kill()
        running.communicate()
        assert gone(running.pid), "workers outlive the sweep that started them"
        before, known = known, kept(killed)
        assert known >= before
        assert not (killed / "table.csv").exists() or known == COUNT
    last = start(killed)
    said = last.communicate(timeout=PATIENCE_S)[0]
    assert last.returncode == 0
    assert (killed / "table.csv").read_bytes() == (whole / "table.csv").read_bytes()
    simulated = re.search(r"([\d,]+) tried now", said)
    assert simulated is not None
    assert int(simulated[1]) == COUNT - known


def gone(session: int) -> bool:
    """Whether all processes of a session end soon."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            os.killpg(session, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    os.killpg(session, signal.SIGKILL)
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
def test_a_sweep_that_is_killed_goes_on_where_it_was(tmp_path: Path) -> None:
    survives(tmp_path, 3, seed=1)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
def test_a_sweep_that_is_killed_twenty_times(tmp_path: Path) -> None:
    survives(tmp_path, 20, seed=2)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
def test_ctrl_c_is_an_exit_code_and_no_traceback(tmp_path: Path) -> None:
    batches = ",".join(str(64 * number) for number in range(1, 60))
    axes = ("training.micro_batch=1,2,4", "training.parallel.tp=2,4", f"training.global_batch={batches}")
    command = [sys.executable, "-m", "simulator", "sweep", QUICKSTART, *axes, "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    running = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    until = time.monotonic() + PATIENCE_S
    while kept(tmp_path) == 0 and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(running.pid, signal.SIGINT)
    out, error = running.communicate(timeout=PATIENCE_S)
    assert (running.returncode, out) == (130, "")
    assert error.startswith("clustersim: interrupted: ")
    assert error.endswith(" of 354 simulations are done and kept; run the same command again to resume\n")
    assert gone(running.pid)


def test_progress_says_how_many_and_how_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from simulator.cli import progress

    monkeypatch.setattr(progress, "is_terminal", lambda stream: True)
    monkeypatch.setattr(progress, "_DELAY_S", 0.0)
    monkeypatch.setattr(progress, "_INTERVAL_S", 0.005)
    with progress.counting("sweeping x") as tell:
        assert tell is not None
        tell(0, 1000)
        time.sleep(0.05)
        tell(500, 1000)
        time.sleep(0.05)
    shown = capsys.readouterr().err
    assert "sweeping x: 0 of 1,000 ... " in shown
    assert re.search(r"sweeping x: 500 of 1,000, 1.00 s left \.\.\. 0\.\d s", shown)
    assert shown.endswith("\r\x1b[K")
    with progress.counting("x", quiet=True) as tell:
        assert tell is None
